#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "bpe.h"
#include "readers.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/weights/weights.h"

namespace tessera::tokenizer {
namespace {

using weights::Weights;

constexpr const char* kUnderscore = "▁";  // SentencePiece's blank
constexpr std::uint32_t kNoId = 0xFFFF'FFFF;

// Of tokenizer.ggml.token_type; 0 is undefined and 6 a byte. Source: llama.cpp, enum
// llama_token_type.
enum TokenType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5 };

constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// As kQwen2, with marks among the letters. Source: the tokenizer.json of Qwen3.5.
constexpr const char* kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kBloom = R"( ?[^(\s|[.,!?…。，、।۔،])]+)";
// Kana and the Han of old, which DeepSeek cuts from what is around them.
constexpr const char* kDeepseekHan = "[一-龥぀-ゟ゠-ヿ]+";
constexpr const char* kDeepseekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
// As kGpt4o, with Han apart from other letters.
constexpr const char* kKimi =
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// How the vocabularies that llama.cpp tells apart cut their text. Source: the tokenizer.json of
// their models, and for `default_` llama.cpp, llama-vocab.cpp.
enum class Cut {
  gpt2,
  digits,
  llama3,
  qwen2,
  qwen35,
  falcon,
  bloom,
  viking,
  tekken,
  gpt4o,
  deepseek_coder,
  deepseek_v3,
  bailing,
  seed_coder,
  kimi,
  default_
};

struct Pre {
  Cut cut;
  bool ignore_merges = false, add_bos = false;
  std::vector<std::string> names;
};

const std::vector<Pre>& known_pres() {
  static const std::vector<Pre> all = {
      {Cut::gpt2,
       false,
       false,
       {"gpt-2", "gpt2", "phi-2", "mpt", "olmo", "jais", "roberta-bpe", "jina-es", "jina-de",
        "exaone4", "granite-docling", "mellum", "trillion"}},
      {Cut::digits,
       false,
       false,
       {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"}},
      {Cut::llama3,
       true,
       true,
       {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"}},
      {Cut::llama3, false, false, {"dbrx", "smaug-bpe", "chatglm-bpe"}},
      {Cut::llama3, true, false, {"glm4", "glm5"}},
      {Cut::qwen2,
       false,
       false,
       {"qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "hunyuan", "solar-open"}},
      {Cut::qwen35, false, false, {"qwen35"}},
      {Cut::falcon, false, false, {"falcon"}},
      {Cut::bloom, false, false, {"bloom", "gpt3-finnish", "poro-chat"}},
      {Cut::viking, false, false, {"viking"}},
      {Cut::tekken, true, true, {"tekken"}},
      {Cut::gpt4o, false, false, {"gpt-4o", "llama4", "kanana2", "minimax-m2"}},
      {Cut::deepseek_coder, false, false, {"deepseek-coder"}},
      {Cut::deepseek_v3, false, false, {"deepseek-v3", "hunyuan-dense"}},
      {Cut::bailing, false, false, {"bailingmoe", "bailingmoe2", "llada-moe"}},
      {Cut::seed_coder, false, false, {"seed-coder"}},
      {Cut::kimi, false, false, {"kimi-k2"}},
      {Cut::default_, false, false, {"default"}}};
  return all;
}

class Reader {
 public:
  explicit Reader(const std::string& path)
      : weights_(Weights::open(path)), where_(quote(path, 300)) {
    if (!weights_->is_gguf()) refuse(where_, "no GGUF file");
    parts_.path = path;
  }

  std::shared_ptr<const Tokenizer> read() {
    const std::string model = text("tokenizer.ggml.model", "");
    if (model.empty()) refuse(where_, "no vocabulary: the metadata lack tokenizer.ggml.model");
    texts_ = *require(weights_->metadata_texts("tokenizer.ggml.tokens"), "tokenizer.ggml.tokens");
    types_.assign(texts_.size(), kNormal);
    if (const auto types = weights_->metadata_numbers("tokenizer.ggml.token_type")) {
      check_length(types->size(), "tokenizer.ggml.token_type");
      for (std::size_t i = 0; i < types->size(); ++i) types_[i] = type_of((*types)[i]);
    }
    if (model == "gpt2") {
      read_byte_level();
    } else if (model == "llama") {
      read_sentencepiece();
    } else {
      refuse(ErrorCode::unsupported, key("tokenizer.ggml.model"),
             "{} is not understood; gpt2 and llama are", quote(model));
    }
    add_added_tokens();
    add_ends();
    return std::make_shared<const Pipeline>(std::move(parts_));
  }

 private:
  int type_of(double number) const {
    if (number >= 0 && number <= 6 && std::floor(number) == number) {
      return static_cast<int>(number);
    }
    refuse(key("tokenizer.ggml.token_type"), "{} is no type of a token", number);
  }
  std::string key(const char* name) const { return where_ + ": " + name; }
  const Json* find(const char* name) const {
    const auto found = weights_->config().find(name);
    return found == weights_->config().end() ? nullptr : &*found;
  }
  std::string text(const char* name, const std::string& fallback) const {
    const Json* value = find(name);
    return value == nullptr ? fallback : json_string(*value, key(name));
  }
  bool flag(const char* name, bool fallback) const {
    const Json* value = find(name);
    return value == nullptr ? fallback : json_boolean(*value, key(name));
  }
  std::optional<std::int32_t> id(const char* name) const {
    const Json* value = find(name);
    if (value == nullptr || *value == kNoId || *value == -1) return std::nullopt;
    const auto last = static_cast<std::int64_t>(texts_.size()) - 1;
    return static_cast<std::int32_t>(json_integer(*value, key(name), 0, last));
  }
  template <typename Array>
  Array require(Array array, const char* name) const {
    if (!array) refuse(where_, "no array {} in the metadata", name);
    return array;
  }
  void check_length(std::size_t length, const char* name) const {
    if (length == texts_.size()) return;
    refuse(key(name), "{} entries for {} tokens", length, texts_.size());
  }

  std::shared_ptr<const Vocabulary> vocabulary() const {
    std::vector<Vocabulary::Entry> entries;
    for (const std::string_view text : texts_) {
      entries.push_back({text, static_cast<std::int64_t>(entries.size())});
    }
    return std::make_shared<const Vocabulary>(entries, key("tokenizer.ggml.tokens"));
  }

  std::vector<Bpe::Merge> written_merges(const std::vector<std::string_view>& list) const {
    std::vector<Bpe::Merge> merges;
    merges.reserve(list.size());
    for (const std::string_view merge : list) {
      const std::size_t blank = merge.find(' ', 1);
      if (blank == std::string_view::npos) {
        refuse(key("tokenizer.ggml.merges"), "merge {}, {}, is not two tokens", merges.size(),
               quote(merge));
      }
      merges.emplace_back(merge.substr(0, blank), merge.substr(blank + 1));
    }
    return merges;
  }

  const Pre& pre() const {
    const std::string name = text("tokenizer.ggml.pre", "default");
    std::vector<std::string> known;
    for (const Pre& pre : known_pres()) {
      if (std::find(pre.names.begin(), pre.names.end(), name) != pre.names.end()) return pre;
      known.insert(known.end(), pre.names.begin(), pre.names.end());
    }
    refuse(ErrorCode::unsupported, key("tokenizer.ggml.pre"), "{} is not understood; known: {}",
           quote(name), join(known, ", "));
  }

  void read_byte_level() {
    const Pre& kind = pre();
    add_pre_tokenizers(kind.cut);
    const auto list =
        require(weights_->metadata_texts("tokenizer.ggml.merges"), "tokenizer.ggml.merges");
    BpeOptions options;
    options.ignore_merges = kind.ignore_merges;
    parts_.model = std::make_unique<Bpe>(vocabulary(), written_merges(*list), options,
                                         key("tokenizer.ggml.merges"));
    parts_.decoders.push_back(std::make_unique<ByteLevelDecoder>());
    adds_bos_ = kind.add_bos;
  }

  void add_split(const char* expression, Behavior behavior = Behavior::isolated) {
    parts_.pre_tokenizers.push_back(
        std::make_unique<Split>(Regex(expression, where_), behavior, false));
  }
  void add_class(bool (*matches)(char32_t), Behavior behavior) {
    parts_.pre_tokenizers.push_back(std::make_unique<SplitCharacters>(matches, behavior));
  }
  void add_byte_level(bool add_prefix_space, bool use_regex) {
    parts_.pre_tokenizers.push_back(std::make_unique<ByteLevel>(add_prefix_space, use_regex));
  }

  void add_pre_tokenizers(Cut cut) {
    const bool prefix = flag("tokenizer.ggml.add_space_prefix", false);
    switch (cut) {
      case Cut::gpt2:
        return add_byte_level(prefix, true);
      case Cut::digits:
        add_class(is_numeric, Behavior::isolated);
        return add_byte_level(prefix, true);
      case Cut::llama3:
        add_split(kLlama3Expression);
        break;
      case Cut::qwen2:
        parts_.normalizers.push_back(std::make_unique<UnicodeNormalizer>(Form::nfc));
        add_split(kQwen2);
        break;
      case Cut::qwen35:
        parts_.normalizers.push_back(std::make_unique<UnicodeNormalizer>(Form::nfc));
        add_split(kQwen35);
        break;
      case Cut::falcon:
        add_class(is_punctuation, Behavior::contiguous);
        add_byte_level(prefix, true);
        add_class(is_numeric, Behavior::contiguous);
        return add_split("[0-9][0-9][0-9]");
      case Cut::bloom:
        add_split(kBloom);
        break;
      case Cut::viking:
        add_split(kBloom);
        add_class(is_numeric, Behavior::isolated);
        break;
      case Cut::tekken:
        add_split(kTekken);
        break;
      case Cut::gpt4o:
        add_split(kGpt4o);
        break;
      case Cut::deepseek_coder:
        add_split(R"([\r\n])");
        add_split(R"(\s?\p{L}+)");
        add_split(R"(\s?\p{P}+)");
        add_split("[一-龥ࠀ-一가-퟿]+");
        add_class(is_numeric, Behavior::isolated);
        break;
      case Cut::deepseek_v3:
        add_split(R"(\p{N}{1,3})");
        add_split(kDeepseekHan);
        add_split(kDeepseekV3);
        break;
      case Cut::bailing:
        add_split(kBailing);
        break;
      case Cut::seed_coder:
        add_split(kSeedCoder);
        break;
      case Cut::kimi:
        add_split(kKimi);
        break;
      case Cut::default_:
        add_split(R"([\p{P}\$\+<=>\^~\|]+)");
        add_byte_level(prefix, true);
        add_class(is_numeric, Behavior::contiguous);
        return add_split("[0-9][0-9][0-9]");
    }
    add_byte_level(prefix, false);
  }

  // Gemma's files hold the tokens of several blanks as blanks, and scores that are not the order in
  // which merges were learned: their ids are. Source: transformers, gguf_tokenizer_mapping.py.
  void respell_blanks() {
    for (std::string_view& text : texts_) {
      if (text.empty() || text.find_first_not_of(' ') != std::string_view::npos) continue;
      std::string spelled;
      for (std::size_t i = 0; i < text.size(); ++i) spelled += kUnderscore;
      text = *respelled_.insert(std::move(spelled)).first;
    }
  }

  void read_sentencepiece() {
    const std::string architecture = text("general.architecture", "");
    const bool gemma = architecture.rfind("gemma", 0) == 0;
    const bool prefix = flag("tokenizer.ggml.add_space_prefix", !gemma);
    if (gemma) respell_blanks();
    const auto tokens = vocabulary();
    BpeOptions options;
    options.unknown = id("tokenizer.ggml.unknown_token_id").value_or(kNoToken);
    options.fuse_unknown = options.byte_fallback = true;
    const auto list = weights_->metadata_texts("tokenizer.ggml.merges");
    parts_.model =
        std::make_unique<Bpe>(tokens, list ? written_merges(*list) : implied_merges(*tokens, gemma),
                              options, key("tokenizer.ggml.tokens"));
    auto& decoders = parts_.decoders;
    decoders.push_back(
        std::make_unique<ReplaceDecoder>(std::make_unique<Replace>(kUnderscore, " ")));
    decoders.push_back(std::make_unique<ByteFallback>());
    decoders.push_back(std::make_unique<Fuse>());
    if (prefix) decoders.push_back(std::make_unique<StripDecoder>(" ", 1, 0));
    if (architecture == "phi3" && prefix) {
      parts_.normalizers.push_back(std::make_unique<Prepend>(kUnderscore));
      parts_.normalizers.push_back(std::make_unique<Replace>(" ", kUnderscore));
    } else {
      parts_.pre_tokenizers.push_back(std::make_unique<Metaspace>(
          kUnderscore, prefix ? PrependScheme::first : PrependScheme::never, false));
    }
    adds_bos_ = true;
  }

  // Two tokens whose texts joined are a token merge into it, those of larger scores before others.
  std::vector<Bpe::Merge> implied_merges(const Vocabulary& tokens, bool by_id) const {
    struct Implied {
      double score;
      std::size_t left_length, right_length;  // characters
      std::int32_t left, right;
    };
    const auto scores =
        *require(weights_->metadata_numbers("tokenizer.ggml.scores"), "tokenizer.ggml.scores");
    check_length(scores.size(), "tokenizer.ggml.scores");
    const auto is_text = [&](std::int32_t id) {
      if (id == kNoToken) return false;
      const int type = types_[static_cast<std::size_t>(id)];
      return type == kNormal || type == kUserDefined || type == kUnused;
    };
    std::vector<Implied> merges;
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      if (!is_text(static_cast<std::int32_t>(id)) || texts_[id].size() > kLongestMerged) continue;
      const std::size_t first = merges.size();
      const std::size_t length = static_cast<std::size_t>(std::count_if(
          texts_[id].begin(), texts_[id].end(),
          [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
      std::size_t before = 0;
      for (std::size_t at = 0; at < texts_[id].size();) {
        next_character(texts_[id], at);
        ++before;
        if (at == texts_[id].size()) break;
        const std::int32_t left = tokens.find(texts_[id].substr(0, at));
        const std::int32_t right = tokens.find(texts_[id].substr(at));
        if (!is_text(left) || !is_text(right)) continue;
        const double score = by_id ? -static_cast<double>(id) : scores[id];
        merges.push_back({score, before, length - before, left, right});
      }
      std::sort(merges.begin() + static_cast<std::ptrdiff_t>(first), merges.end(),
                [](const Implied& a, const Implied& b) {
                  return std::tie(a.left, a.right) < std::tie(b.left, b.right);
                });
    }
    std::stable_sort(merges.begin(), merges.end(), [](const Implied& a, const Implied& b) {
      return std::tie(a.score, a.left_length, a.right_length) >
             std::tie(b.score, b.left_length, b.right_length);
    });
    std::vector<Bpe::Merge> pairs;
    pairs.reserve(merges.size());
    for (const Implied& merge : merges) {
      pairs.emplace_back(tokens.text(merge.left), tokens.text(merge.right));
    }
    return pairs;
  }

  void add_added_tokens() {
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      const int type = types_[i];
      if (type != kControl && type != kUserDefined && type != kUnknown) continue;
      if (texts_[i].empty()) continue;
      AddedToken token;
      token.id = static_cast<std::int32_t>(i);
      token.text = std::string(texts_[i]);
      token.special = type != kUserDefined;
      parts_.added_tokens.push_back(std::move(token));
    }
  }

  void add_ends() {
    parts_.bos = id("tokenizer.ggml.bos_token_id");
    parts_.eos = id("tokenizer.ggml.eos_token_id");
    for (const char* name : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                             "tokenizer.ggml.eom_token_id"}) {
      if (const auto stop = id(name)) parts_.stops.push_back(*stop);
    }
    if (find("tokenizer.ggml.eot_token_id") == nullptr) add_known_ends_of_turn();
    if (flag("tokenizer.ggml.add_bos_token", adds_bos_)) {
      if (!parts_.bos) refuse(where_, "a token before the text is asked for and none is named");
      parts_.before = {*parts_.bos};
    }
    if (flag("tokenizer.ggml.add_eos_token", false)) {
      if (!parts_.eos) refuse(where_, "a token after the text is asked for and none is named");
      parts_.after = {*parts_.eos};
    }
  }

  // Files from before the key was written: the names that llama.cpp looks for.
  void add_known_ends_of_turn() {
    static const std::set<std::string_view> names = {"<|eot_id|>",     "<|im_end|>",    "<|end|>",
                                                     "<end_of_turn>",  "<|endoftext|>", "<EOT>",
                                                     "<|end_of_text|>"};
    for (const AddedToken& token : parts_.added_tokens) {
      if (token.special && names.count(token.text) > 0) parts_.stops.push_back(token.id);
    }
  }

  // Bytes; a hostile token of megabytes would be cut at every character.
  static constexpr std::size_t kLongestMerged = 1024;

  std::shared_ptr<const Weights> weights_;
  std::string where_;
  Parts parts_;
  std::vector<std::string_view> texts_;
  std::set<std::string> respelled_;
  std::vector<int> types_;
  bool adds_bos_ = false;
};

}  // namespace

std::shared_ptr<const Tokenizer> load_gguf(const std::string& path) { return Reader(path).read(); }

}  // namespace tessera::tokenizer
