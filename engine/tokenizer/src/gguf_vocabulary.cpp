#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "bpe.h"
#include "gguf_cuts.h"
#include "readers.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/text.h"
#include "tessera/tokenizer/gguf.h"
#include "tessera/weights/weights.h"

namespace tessera::tokenizer {
namespace {

using weights::Weights;

constexpr const char* kUnderscore = "▁";  // SentencePiece's blank
constexpr std::uint32_t kNoId = 0xFFFF'FFFF;

// Of tokenizer.ggml.token_type; 0 is undefined and 6 a byte. Source: llama.cpp, enum
// llama_token_type.
enum TokenType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5 };

class Reader {
 public:
  explicit Reader(const std::string& path)
      : weights_(Weights::open(path)), where_(quote(path, 300)) {
    if (!weights_->is_gguf()) refuse(where_, "no GGUF file");
    parts_.path = path;
  }

  std::shared_ptr<const Tokenizer> tokenizer() {
    read();
    parts_.model = std::make_unique<Bpe>(vocabulary(), merges_, options_, where_);
    parts_.normalizers = read_normalizers(sequence("normalizers", normalizers_), where_);
    parts_.pre_tokenizers = read_pre_tokenizers(sequence("pretokenizers", pre_tokenizers_), where_);
    parts_.decoders = read_decoders(sequence("decoders", decoders_), where_);
    return std::make_shared<const Pipeline>(std::move(parts_));
  }

  bool write(const std::string& folder) {
    if (find("tokenizer.ggml.model") == nullptr) return false;
    read();
    write_file(folder + "/tokenizer.json", json_text(tokenizer_json(), 1) + "\n");
    write_file(folder + "/tokenizer_config.json", json_text(config_json(), 2) + "\n");
    std::vector<std::int32_t> stops = parts_.stops;
    std::sort(stops.begin(), stops.end());
    stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
    if (!stops.empty()) {
      const Json generation = {{"eos_token_id", stops}};
      write_file(folder + "/generation_config.json", json_text(generation, 2) + "\n");
    }
    return true;
  }

 private:
  void read() {
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
  }

  // Components as a tokenizer.json has them; without any, null.
  static Json sequence(const char* key, const Json& list) {
    return list.empty() ? Json() : Json{{"type", "Sequence"}, {key, list}};
  }

  Json model_json() const {
    Json tokens = Json::object(), merges = Json::array();
    for (std::size_t id = 0; id < texts_.size(); ++id) {
      const std::string text(texts_[id]);
      if (text.empty()) continue;
      if (!is_utf8(text) || !tokens.emplace(text, id).second) {
        refuse(ErrorCode::unsupported, key("tokenizer.ggml.tokens"),
               "token {}, {}, {}; a tokenizer.json has no such tokens", id, quote(text),
               is_utf8(text) ? "is there twice" : "is not UTF-8");
      }
    }
    for (const auto& [left, right] : merges_) {
      merges.push_back({std::string(left), std::string(right)});
    }
    const auto unknown = options_.unknown;
    return {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", unknown == kNoToken ? Json() : Json(text_of(unknown))},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", options_.fuse_unknown},
            {"byte_fallback", options_.byte_fallback},
            {"ignore_merges", options_.ignore_merges},
            {"vocab", std::move(tokens)},
            {"merges", std::move(merges)}};
  }

  // What goes before and after a text.
  Json template_json() const {
    Json single = Json::array(), pair = Json::array(), specials = Json::object();
    const auto add = [&](std::int32_t id) {
      const std::string text = text_of(id);
      specials[text] = {{"id", text}, {"ids", {id}}, {"tokens", {text}}};
      const Json item = {{"SpecialToken", {{"id", text}, {"type_id", 0}}}};
      single.push_back(item);
      pair.push_back(item);
    };
    for (const std::int32_t id : parts_.before) add(id);
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    for (const char* name : {"A", "B"}) {
      pair.push_back({{"Sequence", {{"id", name}, {"type_id", 0}}}});
    }
    for (const std::int32_t id : parts_.after) add(id);
    return {{"type", "TemplateProcessing"},
            {"single", std::move(single)},
            {"pair", std::move(pair)},
            {"special_tokens", std::move(specials)}};
  }

  Json tokenizer_json() const {
    Json added = Json::array();
    for (const AddedToken& token : parts_.added_tokens) {
      added.push_back({{"id", token.id},
                       {"content", token.text},
                       {"single_word", token.single_word},
                       {"lstrip", token.lstrip},
                       {"rstrip", token.rstrip},
                       {"normalized", token.normalized},
                       {"special", token.special}});
    }
    const bool is_bare = parts_.before.empty() && parts_.after.empty();
    return {{"version", "1.0"},
            {"truncation", nullptr},
            {"padding", nullptr},
            {"added_tokens", std::move(added)},
            {"normalizer", sequence("normalizers", normalizers_)},
            {"pre_tokenizer", sequence("pretokenizers", pre_tokenizers_)},
            {"post_processor", is_bare ? Json() : template_json()},
            {"decoder", sequence("decoders", decoders_)},
            {"model", model_json()}};
  }

  Json config_json() const {
    Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                   {"clean_up_tokenization_spaces", false}};
    if (parts_.bos) config["bos_token"] = text_of(*parts_.bos);
    if (parts_.eos) config["eos_token"] = text_of(*parts_.eos);
    const std::string chat = text("tokenizer.chat_template", "");
    if (!chat.empty()) config["chat_template"] = chat;
    return config;
  }

  std::string text_of(std::int32_t id) const {
    return std::string(texts_[static_cast<std::size_t>(id)]);
  }

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

  void read_byte_level() {
    const std::string name = text("tokenizer.ggml.pre", "default");
    auto cut = gguf_cut(name, flag("tokenizer.ggml.add_space_prefix", false));
    if (!cut) {
      refuse(ErrorCode::unsupported, key("tokenizer.ggml.pre"), "{} is not understood; known: {}",
             quote(name), join(known_gguf_cuts(), ", "));
    }
    normalizers_ = std::move(cut->normalizers);
    pre_tokenizers_ = std::move(cut->pre_tokenizers);
    const auto list =
        require(weights_->metadata_texts("tokenizer.ggml.merges"), "tokenizer.ggml.merges");
    merges_ = written_merges(*list);
    options_.ignore_merges = cut->ignore_merges;
    decoders_.push_back({{"type", "ByteLevel"}});
    adds_bos_ = cut->add_bos;
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

  static Json replace_json(const char* from, const char* to) {
    return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
  }

  void read_sentencepiece() {
    const std::string architecture = text("general.architecture", "");
    const bool gemma = architecture.rfind("gemma", 0) == 0;
    const bool prefix = flag("tokenizer.ggml.add_space_prefix", !gemma);
    if (gemma) respell_blanks();
    options_.unknown = id("tokenizer.ggml.unknown_token_id").value_or(kNoToken);
    options_.fuse_unknown = options_.byte_fallback = true;
    const auto list = weights_->metadata_texts("tokenizer.ggml.merges");
    merges_ = list ? written_merges(*list) : implied_merges(*vocabulary(), gemma);
    decoders_.push_back(replace_json(kUnderscore, " "));
    decoders_.push_back({{"type", "ByteFallback"}});
    decoders_.push_back({{"type", "Fuse"}});
    if (prefix) {
      decoders_.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    }
    if (architecture == "phi3" && prefix) {
      normalizers_.push_back({{"type", "Prepend"}, {"prepend", kUnderscore}});
      normalizers_.push_back(replace_json(" ", kUnderscore));
    } else {
      pre_tokenizers_.push_back({{"type", "Metaspace"},
                                 {"replacement", kUnderscore},
                                 {"prepend_scheme", prefix ? "first" : "never"},
                                 {"split", false}});
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
      pairs.emplace_back(texts_[static_cast<std::size_t>(merge.left)],
                         texts_[static_cast<std::size_t>(merge.right)]);
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
  std::vector<Bpe::Merge> merges_;
  BpeOptions options_;
  Json normalizers_ = Json::array(), pre_tokenizers_ = Json::array(), decoders_ = Json::array();
  bool adds_bos_ = false;
};

}  // namespace

std::shared_ptr<const Tokenizer> load_gguf(const std::string& path) {
  return Reader(path).tokenizer();
}

bool write_gguf_tokenizer(const std::string& path, const std::string& folder) {
  return Reader(path).write(folder);
}

}  // namespace tessera::tokenizer
