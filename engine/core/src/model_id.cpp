#include "tessera/core/model_id.h"

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

// A point parts words too, but for that of a number.
std::size_t end_of_part(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (std::string_view("-_ :").find(text[i]) != std::string_view::npos) return i;
    const bool in_number =
        i > 0 && i + 1 < text.size() && is_id_digit(text[i - 1]) && is_id_digit(text[i + 1]);
    if (text[i] == '.' && !in_number) return i;
  }
  return text.size();
}

std::vector<std::string> id_words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = end_of_part(text);
    const std::string_view part = text.substr(0, end);
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

bool is_release(std::string_view word) {
  if (word.size() == 4 && std::all_of(word.begin(), word.end(), is_id_digit)) {
    return word.starts_with("24") || word.starts_with("25") || word.starts_with("05") ||
           word.starts_with("03");
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

std::string without_release(const std::string& stem) {
  const std::size_t dash = stem.rfind('-');
  if (dash == std::string::npos || !is_release(std::string_view(stem).substr(dash + 1)))
    return stem;
  return stem.substr(0, dash);
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
// release; larger: another model.
int distance_to(const std::string& known, const std::string& name, const ModelId& id) {
  constexpr int kOther = 4;
  if (known == name) return 0;
  if (lower(known) == lower(name)) return 1;
  const std::string own = parse_model_id(known).stem;
  if (own == id.stem) return 2;
  return without_release(own) == without_release(id.stem) ? 3 : kOther;
}

}  // namespace

ModelId parse_model_id(std::string_view text) {
  ModelId id;
  // What starts so is a path.
  if (text.size() > 256 || text.find_first_of("./~") == 0) return id;
  const std::size_t slash = text.rfind('/');
  const std::string name = lower(slash == std::string_view::npos ? text : text.substr(slash + 1));
  const std::vector<std::string> words = id_words(name);
  id.stem = without_maker(stem_of(words, id));
  // What ollama pulls is of 4 bits where the tag says none.
  if (name.find(':') != std::string::npos && slash == std::string_view::npos && !id.format) {
    id.format = id.stem.starts_with("gpt-oss") ? "gguf mxfp4" : "gguf q4_k_m";
    id.bits = 4;
  }
  return id;
}

NamedModel find_model(const std::string& name, const DataFolders& folders) {
  NamedModel found{folders.find("models", name), true, {}};
  if (!found.file.empty()) return found;
  found = {"", false, parse_model_id(name)};
  if (found.id.stem.empty()) return found;
  int nearest = 4;
  for (const std::string& known : folders.list("models")) {
    const std::string file = folders.find("models", known);
    Json json;
    try {
      json = read_json_file(file);
    } catch (const Error&) {
      continue;  // a broken file of a user must not take the others with it
    }
    if (!json.is_object()) continue;
    for (const std::string& own : known_names(known, json)) {
      const int distance = distance_to(own, name, found.id);
      if (distance >= nearest) continue;
      nearest = distance;
      found.file = file;
    }
  }
  return found;
}

}  // namespace tessera
