// Vocabularies of tiktoken: bytes and their ranks, which are the order in which they were merged.
// Sources: tiktoken (openai), load.py and src/lib.rs; llama3 (meta-llama), tokenizer.py;
// mistral-common, tokens/tokenizers/tekken.py.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "bpe.h"
#include "byte_level.h"
#include "readers.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/text.h"

namespace tessera::tokenizer {
namespace {

constexpr std::size_t kLongestToken = 1024;  // bytes; those of models have some dozens

std::optional<std::string> of_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_padding = i >= text.size() - padding;
    const std::size_t digit = is_padding ? 0 : kDigits.find(text[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if (i % 4 != 3) continue;
    for (const int shift : {16, 8, 0}) bytes += static_cast<char>(bits >> shift & 0xff);
    bits = 0;
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

struct Special {
  std::string text;
  bool is_control = true;
};

/// Tokens by rank, with `num_before` ids before them that are special ones'.
class Ranked {
 public:
  Ranked(std::string path, std::int64_t num_before) : num_before_(num_before) {
    parts_.path = std::move(path);
    where_ = quote(parts_.path, 300);
  }

  void add(std::string_view base64) {
    const auto bytes = of_base64(base64);
    if (!bytes || bytes->size() > kLongestToken)
      refuse(where_, "token {}, {}, is no base64 of 1 to {} bytes", tokens_.size(), quote(base64),
             kLongestToken);
    tokens_.emplace_back();
    append_byte_level(tokens_.back(), *bytes);
  }
  std::size_t size() const { return tokens_.size(); }

  void add_special(std::int64_t id, const Special& special) {
    if (special.text.empty() || special.text.size() > kLongestToken)
      refuse(where_, "special token {} has {} bytes; 1 to {} belong there", id, special.text.size(),
             kLongestToken);
    AddedToken token;
    token.id = static_cast<std::int32_t>(id);
    token.text = special.text;
    token.special = special.is_control;
    parts_.added_tokens.push_back(std::move(token));
  }

  /// @param bos, eos what the format has there, where no file beside it says otherwise
  std::shared_ptr<const Tokenizer> tokenizer(const std::string& expression, std::int32_t bos,
                                             const std::vector<std::int32_t>& stops) {
    std::vector<Vocabulary::Entry> entries;
    for (std::size_t i = 0; i < tokens_.size(); ++i)
      entries.push_back({tokens_[i], num_before_ + static_cast<std::int64_t>(i)});
    const auto vocabulary = std::make_shared<const Vocabulary>(entries, where_);
    BpeOptions options;
    options.ignore_merges = true;
    parts_.model = std::make_unique<Bpe>(vocabulary, merges(*vocabulary), options, where_);
    parts_.pre_tokenizers.push_back(
        std::make_unique<Split>(Regex(expression, where_), Behavior::isolated, false));
    parts_.pre_tokenizers.push_back(std::make_unique<ByteLevel>(false, false));
    parts_.decoders.push_back(std::make_unique<ByteLevelDecoder>());
    parts_.bos = bos;
    parts_.eos = stops.front();
    parts_.stops = stops;
    const Companions companions = read_companions(parts_.path);
    if (companions.stop_token_ids) parts_.stops = *companions.stop_token_ids;
    if (companions.add_bos_token.value_or(true)) parts_.before = {bos};
    return std::make_shared<const Pipeline>(std::move(parts_));
  }

 private:
  // Two tokens whose bytes are a third's may merge into it; which third is first decides.
  std::vector<Bpe::Merge> merges(const Vocabulary& vocabulary) const {
    std::vector<Bpe::Merge> all;
    std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
    for (std::size_t rank = 0; rank < tokens_.size(); ++rank) {
      const std::string_view token = tokens_[rank];
      pairs.clear();
      for (std::size_t at = 0; at < token.size();) {
        next_character(token, at);
        if (at == token.size()) break;
        const std::int32_t left = vocabulary.find(token.substr(0, at));
        const std::int32_t right = vocabulary.find(token.substr(at));
        if (left != kNoToken && right != kNoToken) pairs.emplace_back(left, right);
      }
      std::sort(pairs.begin(), pairs.end());
      for (const auto& [left, right] : pairs)
        all.emplace_back(vocabulary.text(left), vocabulary.text(right));
    }
    return all;
  }

  std::int64_t num_before_;
  std::string where_;
  std::vector<std::string> tokens_;  // by rank, in GPT-2's alphabet of bytes
  Parts parts_;
};

// Behind the tokens of Llama 3 stand 256 special ones.
std::vector<Special> llama3_specials() {
  constexpr int kCount = 256;
  std::vector<Special> specials;
  int num_reserved = 0;
  for (int i = 0; i < kCount; ++i) {
    switch (i) {
      case 0:
        specials.push_back({"<|begin_of_text|>"});
        break;
      case 1:
        specials.push_back({"<|end_of_text|>"});
        break;
      case 6:
        specials.push_back({"<|start_header_id|>"});
        break;
      case 7:
        specials.push_back({"<|end_header_id|>"});
        break;
      case 9:
        specials.push_back({"<|eot_id|>"});
        break;
      default:
        specials.push_back({fmt::format("<|reserved_special_token_{}|>", num_reserved++)});
    }
  }
  return specials;
}

// What files of Mistral had before they listed them (mistral-common, SpecialTokens).
constexpr const char* kTekkenSpecials[] = {"<unk>",
                                           "<s>",
                                           "</s>",
                                           "[INST]",
                                           "[/INST]",
                                           "[AVAILABLE_TOOLS]",
                                           "[/AVAILABLE_TOOLS]",
                                           "[TOOL_RESULTS]",
                                           "[/TOOL_RESULTS]",
                                           "[TOOL_CALLS]",
                                           "[IMG]",
                                           "<pad>",
                                           "[IMG_BREAK]",
                                           "[IMG_END]",
                                           "[PREFIX]",
                                           "[MIDDLE]",
                                           "[SUFFIX]",
                                           "[SYSTEM_PROMPT]",
                                           "[/SYSTEM_PROMPT]",
                                           "[TOOL_CONTENT]"};

std::vector<Special> tekken_specials(JsonFields& fields, std::int64_t count) {
  std::vector<Special> specials;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool is_named = i < std::ssize(kTekkenSpecials) && !fields.has("special_tokens");
    specials.push_back({is_named ? kTekkenSpecials[i] : fmt::format("<SPECIAL_{}>", i)});
  }
  if (!fields.has("special_tokens")) return specials;
  const Json& list = fields.at("special_tokens");
  check_array(list, fields.path_of("special_tokens"));
  for (const Json& entry : list) {
    JsonFields one(entry, fields.path_of("special_tokens"));
    Special& special = specials[static_cast<std::size_t>(one.integer("rank", 0, count - 1))];
    special.text = one.text("token_str");
    special.is_control = one.boolean("is_control", true);
  }
  return specials;
}

}  // namespace

bool is_tiktoken(std::string_view file) {
  const std::string_view line = file.substr(0, file.find('\n'));
  const std::size_t blank = line.find(' ');
  return blank != std::string_view::npos && of_base64(line.substr(0, blank)).has_value();
}

// "IQ== 0": the base64 of a token's bytes and its rank, one after the other from 0 on.
std::shared_ptr<const Tokenizer> load_tiktoken(const std::string& path) {
  const std::string file = read_file(path);
  const std::string where = quote(path, 300);
  Ranked ranked(path, 0);
  std::string_view rest = file;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    if (line.empty()) continue;
    const std::size_t blank = line.find(' ');
    const std::string_view digits = blank == std::string_view::npos ? line : line.substr(blank + 1);
    std::size_t rank = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (blank == std::string_view::npos || error != std::errc() ||
        stop != digits.data() + digits.size() || rank != ranked.size()) {
      refuse(where, "line {} is no token of rank {}: {}", ranked.size() + 1, ranked.size(),
             quote(line, 100));
    }
    if (std::cmp_greater_equal(rank, kMaxTokens)) refuse(where, "more than {} tokens", kMaxTokens);
    ranked.add(line.substr(0, blank));
  }
  const auto first = static_cast<std::int32_t>(ranked.size());
  const std::vector<Special> specials = llama3_specials();
  for (std::size_t i = 0; i < specials.size(); ++i)
    ranked.add_special(first + static_cast<std::int64_t>(i), specials[i]);
  return ranked.tokenizer(kLlama3Expression, first, {first + 1, first + 9});
}

std::shared_ptr<const Tokenizer> load_tekken(const std::string& path) {
  const Json json = read_json_file(path);
  const std::string where = quote(path, 300);
  JsonFields fields(json, where);
  JsonFields config(fields.at("config"), where + ": config");
  const std::string expression = config.text("pattern");
  const std::int64_t size = config.integer("default_vocab_size", 3, kMaxTokens);
  const std::int64_t num_special = config.integer("default_num_special_tokens", 3, size - 1);
  const Json& vocabulary = fields.at("vocab");
  check_array(vocabulary, where + ": vocab");
  Ranked ranked(path, num_special);
  for (const Json& entry : vocabulary) {  // files hold more than is used
    if (std::cmp_greater_equal(ranked.size(), size - num_special)) break;
    JsonFields token(entry, fmt::format("{}: vocab[{}]", where, ranked.size()));
    if (token.integer("rank", 0, kMaxTokens) != static_cast<std::int64_t>(ranked.size()))
      refuse(token.path_of("rank"), "the ranks are not in their order from 0 on");
    ranked.add(token.text("token_bytes"));
  }
  const std::vector<Special> specials = tekken_specials(fields, num_special);
  for (std::size_t i = 0; i < specials.size(); ++i)
    ranked.add_special(static_cast<std::int64_t>(i), specials[i]);
  return ranked.tokenizer(expression, 1, {2});
}

}  // namespace tessera::tokenizer
