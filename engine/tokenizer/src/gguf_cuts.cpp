#include "gguf_cuts.h"

#include <algorithm>
#include <utility>

#include "readers.h"

namespace tessera::tokenizer {
namespace {

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

class Cutting {
 public:
  Cutting(const Pre& pre, bool prefix) {
    cut_.ignore_merges = pre.ignore_merges;
    cut_.add_bos = pre.add_bos;
    add(pre.cut, prefix);
  }
  GgufCut take() { return std::move(cut_); }

 private:
  void add_split(const char* expression) {
    cut_.pre_tokenizers.push_back({{"type", "Split"},
                                   {"pattern", {{"Regex", expression}}},
                                   {"behavior", "Isolated"},
                                   {"invert", false}});
  }
  void add_digits(bool individual_digits) {
    cut_.pre_tokenizers.push_back({{"type", "Digits"}, {"individual_digits", individual_digits}});
  }
  void add_byte_level(bool add_prefix_space, bool use_regex) {
    cut_.pre_tokenizers.push_back({{"type", "ByteLevel"},
                                   {"add_prefix_space", add_prefix_space},
                                   {"trim_offsets", true},
                                   {"use_regex", use_regex}});
  }

  void add(Cut cut, bool prefix) {
    switch (cut) {
      case Cut::gpt2:
        return add_byte_level(prefix, true);
      case Cut::digits:
        add_digits(true);
        return add_byte_level(prefix, true);
      case Cut::llama3:
        add_split(kLlama3Expression);
        break;
      case Cut::qwen2:
        cut_.normalizers.push_back({{"type", "NFC"}});
        add_split(kQwen2);
        break;
      case Cut::qwen35:
        cut_.normalizers.push_back({{"type", "NFC"}});
        add_split(kQwen35);
        break;
      case Cut::falcon:
        cut_.pre_tokenizers.push_back({{"type", "Punctuation"}, {"behavior", "Contiguous"}});
        add_byte_level(prefix, true);
        add_digits(false);
        return add_split("[0-9][0-9][0-9]");
      case Cut::bloom:
        add_split(kBloom);
        break;
      case Cut::viking:
        add_split(kBloom);
        add_digits(true);
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
        add_digits(true);
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
        add_digits(false);
        return add_split("[0-9][0-9][0-9]");
    }
    add_byte_level(prefix, false);
  }

  GgufCut cut_;
};

}  // namespace

std::optional<GgufCut> gguf_cut(const std::string& name, bool prefix) {
  for (const Pre& pre : known_pres()) {
    if (std::find(pre.names.begin(), pre.names.end(), name) == pre.names.end()) continue;
    return Cutting(pre, prefix).take();
  }
  return std::nullopt;
}

std::vector<std::string> known_gguf_cuts() {
  std::vector<std::string> names;
  for (const Pre& pre : known_pres()) {
    names.insert(names.end(), pre.names.begin(), pre.names.end());
  }
  return names;
}

}  // namespace tessera::tokenizer
