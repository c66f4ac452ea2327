#include "tessera/core/model_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"

namespace tessera {
namespace {

bool is_id_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

struct StorageWord {
  std::string_view text;
  const char* format;  ///< nullptr: tells bits alone
  double bits;         ///< 0: tells none
};
// What names of checkpoints say of how weights are stored.
constexpr StorageWord kStorage[] = {{"awq", "awq", 4},
                                    {"gptq", "gptq", 4},
                                    {"autoround", "autoround", 4},
                                    {"bnb", "bitsandbytes", 4},
                                    {"nf4", "bitsandbytes", 4},
                                    {"fp8", "fp8", 8},
                                    {"nvfp4", "nvfp4", 4},
                                    {"mxfp4", "mxfp4", 4},
                                    {"fp4", "fp4", 4},
                                    {"w4a16", "compressed-tensors w4a16", 4},
                                    {"w8a16", "compressed-tensors w8a16", 8},
                                    {"w8a8", "compressed-tensors w8a8", 8},
                                    {"w4a8", "compressed-tensors w4a8", 4},
                                    {"gguf", "gguf", 0},
                                    {"ggml", "gguf", 0},
                                    {"mlx", "mlx", 0},
                                    {"exl2", "exl2", 0},
                                    {"exl3", "exl3", 0},
                                    {"bf16", "bf16", 16},
                                    {"fp16", "fp16", 16},
                                    {"f16", "fp16", 16},
                                    {"int4", nullptr, 4},
                                    {"int8", nullptr, 8},
                                    {"3bit", nullptr, 3},
                                    {"4bit", nullptr, 4},
                                    {"5bit", nullptr, 5},
                                    {"6bit", nullptr, 6},
                                    {"8bit", nullptr, 8},
                                    {"quantized", nullptr, 0},
                                    {"dynamic", nullptr, 0},
                                    {"static", nullptr, 0},
                                    {"block", nullptr, 0},
                                    {"dwq", nullptr, 0},
                                    {"marlin", nullptr, 0},
                                    {"128g", nullptr, 0},
                                    {"g128", nullptr, 0},
                                    {"gs128", nullptr, 0},
                                    {"g32", nullptr, 0},
                                    {"imatrix", nullptr, 0},
                                    {"i1", nullptr, 0},
                                    {"ud", nullptr, 0},
                                    {"unsloth", nullptr, 0},
                                    {"torchao", nullptr, 0},
                                    {"sym", nullptr, 0},
                                    {"qat", nullptr, 0}};

constexpr std::string_view kInstruct[] = {"instruct", "it", "chat", "inst"};
constexpr std::string_view kBase[] = {"base", "pt"};
// Tells nothing of the shape.
constexpr std::string_view kEmpty[] = {"hf", "latest", "text", "transformers"};

template <std::size_t N>
bool is_one_of(const std::string_view (&words)[N], std::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

// "llama3.1" as "llama", "3.1": where letters go over into a number of their own.
void add_words(std::string_view part, std::vector<std::string>& words) {
  const std::size_t digit = part.find_first_of("0123456789");
  const bool named = digit != std::string_view::npos && digit >= 3 &&
                     std::all_of(part.begin() + static_cast<std::ptrdiff_t>(digit), part.end(),
                                 [](char c) { return is_id_digit(c) || c == '.'; });
  if (named) {
    words.emplace_back(part.substr(0, digit));
    words.emplace_back(part.substr(digit));
  } else if (!part.empty()) {
    words.emplace_back(part);
  }
}

bool is_storage(std::string_view text);

// "q8", "iq4": what GGUF's types begin with.
bool begins_gguf_type(std::string_view part) {
  return part.size() >= 2 && part.size() <= 3 && part.find('q') == part.size() - 2 &&
         is_id_digit(part.back());
}

// A point parts words too, but for that of a number, which some write as '_' ("Llama-3_3").
std::size_t end_of_part(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (std::string_view("- :").find(text[i]) != std::string_view::npos) return i;
    const bool in_number =
        i > 0 && i + 1 < text.size() && is_id_digit(text[i - 1]) && is_id_digit(text[i + 1]);
    if (text[i] == '.' && !in_number) return i;
    if (text[i] == '_' && (!in_number || begins_gguf_type(text.substr(0, i)))) return i;
  }
  return text.size();
}

std::vector<std::string> id_words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = end_of_part(text);
    std::string part(text.substr(0, end));
    std::replace(part.begin(), part.end(), '_', '.');
    if (is_storage(part)) {
      words.emplace_back(part);  // "int4" is one word
    } else {
      add_words(part, words);
    }
    text = end == text.size() ? std::string_view() : text.substr(end + 1);
  }
  return words;
}

bool is_storage(std::string_view text) {
  return std::any_of(std::begin(kStorage), std::end(kStorage),
                     [&](const StorageWord& word) { return word.text == text; });
}

void say_storage(ModelId& id, const char* format, double bits, bool stronger) {
  if (format != nullptr && !id.format) id.format = format;
  if (bits > 0 && (stronger || !id.bits)) id.bits = bits;
}

// "q4", "k", "m" and "iq4", "xs" of GGUF's types: words taken, 0 where there is no type.
std::size_t take_gguf_type(const std::vector<std::string>& words, std::size_t at, ModelId& id) {
  std::string_view word = words[at];
  for (const std::string_view prefix : {"iq", "tq", "q"}) {
    if (!word.starts_with(prefix)) continue;
    const std::string_view bits = word.substr(prefix.size());
    if (bits.size() != 1 || !is_id_digit(bits[0]) || bits[0] == '0') return 0;
    std::size_t taken = 1;
    std::string type(word);
    for (; at + taken < words.size() && taken < 3; ++taken) {
      constexpr std::string_view kParts[] = {"0", "1", "k", "s", "m", "l", "xs", "xxs", "xl", "nl"};
      if (!is_one_of(kParts, words[at + taken])) break;
      type += "_" + words[at + taken];
    }
    if (taken == 1 && prefix == "q" && !id.format) type = word;
    id.format = "gguf " + type;
    id.bits = bits[0] - '0';
    return taken;
  }
  return 0;
}

// "4.0bpw" of ExLlama's.
bool take_bits_per_weight(std::string_view word, ModelId& id) {
  if (!word.ends_with("bpw")) return false;
  double bits = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size() - 3, bits);
  if (error != std::errc() || end != word.data() + word.size() - 3 || bits < 1 || bits > 16) {
    return false;
  }
  id.bits = bits;
  return true;
}

// Takes one or more words that say how weights are stored, or how the model was tuned.
std::size_t take_meaning(const std::vector<std::string>& words, std::size_t at, ModelId& id) {
  const std::string_view word = words[at];
  if (at + 1 < words.size() && words[at + 1] == "bit" && word.size() == 1 && is_id_digit(word[0]) &&
      word[0] != '0') {
    id.bits = word[0] - '0';
    return 2;
  }
  for (const StorageWord& known : kStorage) {
    if (known.text != word) continue;
    say_storage(id, known.format, known.bits, known.format == nullptr);
    return 1;
  }
  if (take_bits_per_weight(word, id)) return 1;
  if (is_one_of(kInstruct, word) || is_one_of(kBase, word)) {
    id.tuning = is_one_of(kBase, word) ? "base" : "instruct";
    return 1;
  }
  if (is_one_of(kEmpty, word)) return 1;
  return take_gguf_type(words, at, id);
}

// "2409" and "0905", a month and a day of one, and "v0.3".
bool is_release(std::string_view word) {
  if (word.size() == 4 && std::all_of(word.begin(), word.end(), is_id_digit)) {
    const std::string_view first = word.substr(0, 2);
    return first <= "12" || (first >= "23" && first <= "26");
  }
  return word.size() == 4 && word[0] == 'v' && is_id_digit(word[1]) && word[2] == '.';
}

std::string stem_of(const std::vector<std::string>& words, ModelId& id) {
  std::string stem;
  for (std::size_t i = 0; i < words.size();) {
    // The first word is what the model is called, whatever it means elsewhere.
    const std::size_t taken = i == 0 ? 0 : take_meaning(words, i, id);
    if (taken == 0) {
      if (!stem.empty()) stem += '-';
      stem += words[i];
    }
    i += std::max<std::size_t>(taken, 1);
  }
  return stem;
}

// Whoever publishes puts its own name first: "Meta-Llama-3.1-8B", "Mistral-7B" of mistralai.
std::string without_maker(std::string stem) {
  constexpr std::string_view kMakers[] = {"meta-",   "microsoft-", "google-",
                                          "nvidia-", "mistralai-", "unsloth-"};
  for (const std::string_view maker : kMakers) {
    if (stem.starts_with(maker)) return stem.substr(maker.size());
  }
  return stem;
}

// "7b", "1.5b", "8x7b", "a3b", "135m"; "1m" is a context.
bool is_size(std::string_view word) {
  const std::size_t least = word.ends_with('m') ? 4 : 2;
  if (word.size() < least || (word.back() != 'b' && word.back() != 'm')) return false;
  word.remove_suffix(1);
  if (word.front() == 'a') word.remove_prefix(1);
  return !word.empty() && is_id_digit(word.front()) &&
         word.find_first_not_of("0123456789.x") == std::string_view::npos;
}

// The last word of a stem, and what stands before it.
struct LastWord {
  std::string_view before, word;
};
LastWord last_word(std::string_view stem) {
  const std::size_t dash = stem.rfind('-');
  if (dash == std::string_view::npos) return {{}, stem};
  return {stem.substr(0, dash), stem.substr(dash + 1)};
}

// "v0.3" is a release of "mistral-7b", but "v3.2" is what another DeepSeek is called.
std::string without_release(const std::string& stem) {
  const auto [before, word] = last_word(stem);
  if (before.empty() || !is_release(word)) return stem;
  if (word[0] == 'v' && !is_size(last_word(before).word)) return stem;
  return std::string(before);
}

// Heads and patches for a model, which are none.
bool is_part_of_model(std::string_view word) {
  constexpr std::string_view kParts[] = {"eagle", "medusa", "draft", "lora", "adapter", "mamba"};
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](std::string_view part) { return word.starts_with(part); });
}

// Whether `own` with its size stands within the name of what was tuned from it, as "mistral-7b" in
// "openhermes-2.5-mistral-7b", and nothing beside it says another size.
bool is_tuned_from(const std::string& stem, const std::string& own) {
  const std::size_t at = ("-" + stem + "-").find("-" + own + "-");
  if (at == std::string::npos || own.find('-') == std::string::npos) return false;
  const std::string rest = stem.substr(0, at) + "-" + stem.substr(at + own.size());
  bool sized = false;
  for (std::string_view left = own; !left.empty(); left = last_word(left).before) {
    sized = sized || is_size(last_word(left).word);
  }
  for (std::string_view left = rest; !left.empty(); left = last_word(left).before) {
    const std::string_view word = last_word(left).word;
    if (is_size(word) || is_part_of_model(word)) return false;
  }
  return sized;
}

// Whether `own` has all words of `stem` in their order, beginning with the first: "llama-3.1-70b"
// those of "llama-70b".
bool says_more(std::string_view own, std::string_view stem) {
  bool first = true;
  for (; !stem.empty(); first = false) {
    const std::string word = std::string(stem.substr(0, stem.find('-')));
    stem.remove_prefix(std::min(stem.size(), word.size() + 1));
    for (;;) {
      if (own.empty()) return false;
      const std::string_view next = own.substr(0, own.find('-'));
      own.remove_prefix(std::min(own.size(), next.size() + 1));
      if (next == word) break;
      if (first) return false;
    }
  }
  return true;
}

// Names under which a shape is known: its file's, the id of its source, and those it lists.
std::vector<std::string> known_names(const std::string& name, const Json& json) {
  std::vector<std::string> names = {name};
  constexpr std::string_view kHub = "https://huggingface.co/";
  const auto source = json.find("source");
  if (source != json.end() && source->is_string()) {
    const std::string text = source->get<std::string>();
    if (text.starts_with(kHub)) {
      names.push_back(text.substr(kHub.size(), text.find(' ') - kHub.size()));
    }
  }
  const auto ids = json.find("ids");
  if (ids != json.end() && ids->is_array()) {
    for (const Json& id : *ids) {
      if (id.is_string()) names.push_back(id.get<std::string>());
    }
  }
  return names;
}

// How near a name is: 0 the same, 1 but for case, 2 but for tuning and storage, 3 but for the
// release; from there on what was tuned from it, the longer its own name the nearer.
constexpr int kTuned = 4, kLongest = 256, kOther = kTuned + kLongest;

int distance_to(const std::string& known, const std::string& name, const ModelId& id) {
  if (known == name) return 0;
  if (lower(known) == lower(name)) return 1;
  const std::string own = parse_model_id(known).stem;
  if (own == id.stem) return 2;
  if (without_release(own) == without_release(id.stem)) return 3;
  return is_tuned_from(id.stem, own) ? kOther - static_cast<int>(own.size()) : kOther;
}

// Models that people name and that do not ship, by how their names begin; whether they are read is
// what the table of families says of their model_type.
struct Beyond {
  std::string_view name;
  std::string_view model_type;
  const char* nearest;  ///< shape
};
constexpr Beyond kBeyond[] = {{"llama-3.3-nemotron", "nemotron-nas", "llama-3.3-70b"},
                              {"llama-3.1-nemotron-51b", "nemotron-nas", "llama-3.1-70b"},
                              {"llama-3.1-nemotron-ultra", "nemotron-nas", "llama-3.1-405b"},
                              {"llama-3.2-11b-vision", "mllama", "llama-3.1-8b"},
                              {"llama-3.2-90b-vision", "mllama", "llama-3.1-70b"},
                              {"nemotron-h", "nemotron_h", "nemotron-h-56b"},
                              {"nemotron-nano", "nemotron_h", "nemotron-3-nano-30b-a3b"},
                              {"nemotron-3", "nemotron_h", "nemotron-3-nano-30b-a3b"},
                              {"qwen3-next", "qwen3_next", "qwen3-next-80b-a3b"},
                              {"qwen3-coder-next", "qwen3_next", "qwen3-next-80b-a3b"},
                              {"qwen3.5", "qwen3_5", "qwen3.5-35b-a3b"},
                              {"qwen3.6", "qwen3_5", "qwen3.5-35b-a3b"},
                              {"qwen3.7", "qwen3_5", "qwen3.5-35b-a3b"},
                              {"qwen3.8", "qwen3_5", "qwen3.5-35b-a3b"},
                              {"kimi-linear", "kimi_linear", "kimi-linear-48b-a3b"},
                              {"jamba", "jamba", "jamba-v0.1"},
                              {"ai21-jamba", "jamba", "jamba-v0.1"},
                              {"falcon-h1", "falcon_h1", "falcon3-7b"},
                              {"falcon-mamba", "falcon_mamba", "falcon3-7b"},
                              {"granite-4.0-h", "granitemoehybrid", "granite-4.0-h-small"},
                              {"lfm2", "lfm2", "lfm2-1.2b"},
                              {"minimax-m1", "minimax_m1", "minimax-m1"},
                              {"minimax-text-01", "minimax_m1", "minimax-m1"},
                              {"gemma-3n", "gemma3n", "gemma-3n-e4b"},
                              {"gemma-4", "gemma4", "gemma-4-26b-a4b"},
                              {"deepseek-v3.2", "deepseek_v32", "deepseek-v3.2"},
                              {"deepseek-v4", "deepseek_v4", "deepseek-v4-flash"},
                              {"glm-5", "glm_moe_dsa", "deepseek-v3.2"}};

const Beyond* beyond_of(const std::string& stem) {
  for (const Beyond& each : kBeyond) {
    const std::string own = parse_model_id(each.name).stem;
    if (stem == own || stem.starts_with(own + "-")) return &each;
  }
  return nullptr;
}

// Of each distance, names of three kinds.
constexpr int kKinds = 3;

// What is nearest to a name among all files.
struct Nearest {
  int distance = kKinds * kOther;
  std::vector<std::string> names;

  void offer(int other, const std::string& name) {
    if (other > distance || other >= kKinds * kOther) return;
    if (other < distance) names.clear();
    distance = other;
    if (names.empty() || names.back() != name) names.push_back(name);
  }
};

}  // namespace

ModelId parse_model_id(std::string_view text) {
  ModelId id;
  // What starts so is a path.
  if (text.size() > 256 || text.find_first_of("./~") == 0) return id;
  const std::size_t slash = text.rfind('/');
  const std::string name = lower(slash == std::string_view::npos ? text : text.substr(slash + 1));
  const std::vector<std::string> words = id_words(name);
  id.stem = without_maker(stem_of(words, id));
  if (text.starts_with("mlx-community/") && !id.format) id.format = "mlx";
  // What ollama pulls is of 4 bits where the tag says none.
  if (name.find(':') != std::string::npos && slash == std::string_view::npos && !id.format) {
    id.format = id.stem.starts_with("gpt-oss") ? "gguf mxfp4" : "gguf q4_k_m";
    id.bits = 4;
  }
  return id;
}

NamedModel find_model(const std::string& name, const DataFolders& folders) {
  NamedModel found{folders.find("models", name), true, {}, {}, {}};
  if (!found.file.empty()) return found;
  found.is_name = false;
  found.id = parse_model_id(name);
  if (found.id.stem.empty()) return found;
  Nearest nearest;
  std::vector<std::string> longer;
  for (const std::string& known : folders.list("models")) {
    Json json;
    try {
      json = read_json_file(folders.find("models", known));
    } catch (const Error&) {
      continue;  // a broken file of a user must not take the others with it
    }
    if (!json.is_object()) continue;
    for (const std::string& own : known_names(known, json)) {
      // What a shape is called counts more than what else it is known by, and ids of the hub
      // more for those, ollama's for its own.
      const bool alike =
          (own.find('/') == std::string::npos) == (name.find('/') == std::string::npos);
      const int beside = own == known ? 0 : alike ? 1 : 2;
      nearest.offer(kKinds * distance_to(own, name, found.id) + beside, known);
    }
    if (says_more(parse_model_id(known).stem, found.id.stem)) longer.push_back(known);
  }
  const Beyond* beyond = nearest.distance < kKinds * kTuned ? nullptr : beyond_of(found.id.stem);
  if (beyond != nullptr) {
    const std::string own =
        is_known_model_type(beyond->model_type)
            ? "its sizes do not ship, though its config.json is read"
            : reason_not_understood(beyond->model_type) + ", which no description here can say";
    found.why_not = fmt::format("{}; the nearest that ships is {}", own, quote(beyond->nearest));
  } else if (nearest.names.size() == 1) {
    found.file = folders.find("models", nearest.names.front());
  } else {
    found.several = nearest.names.empty() ? longer : nearest.names;
  }
  return found;
}

}  // namespace tessera
