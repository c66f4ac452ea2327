#include <fmt/format.h>

#include <utility>

#include "readers.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::tokenizer {
namespace {

// A type of a component, and how what it says is read and appended to what comes before it.
template <typename List>
struct Kind {
  const char* type;
  void (*read)(JsonFields& fields, const std::string& where, List& list);
};

// Reads one component, or a Sequence of them under `key`.
template <typename List, std::size_t count>
void read_component(const Json& json, const std::string& where, const char* key,
                    const Kind<List> (&kinds)[count], List& list) {
  if (json.is_null()) return;
  JsonFields fields(json, where);
  const std::string type = fields.text("type");
  if (type == "Sequence") {
    const Json& parts = fields.at(key);
    check_array(parts, fields.path_of(key));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      read_component(parts[i], fmt::format("{}[{}]", where, i), key, kinds, list);
    }
    return fields.finish();
  }
  std::vector<std::string> known = {"Sequence"};
  for (const Kind<List>& kind : kinds) {
    known.emplace_back(kind.type);
    if (type != kind.type) continue;
    kind.read(fields, where + " " + type, list);
    return fields.finish();
  }
  refuse(ErrorCode::unsupported, where, "the type {} is not understood; understood: {}",
         quote(type), join(known, ", "));
}

struct Pattern {
  std::optional<Regex> regex;
  std::string text;
};

// { "Regex": "..." } or { "String": "..." }
Pattern read_pattern(JsonFields& fields, const std::string& where) {
  JsonFields pattern(fields.at("pattern"), fields.path_of("pattern"));
  Pattern read;
  if (pattern.has("Regex")) {
    read.regex.emplace(pattern.text("Regex"), where);
  } else {
    read.text = pattern.text("String");
  }
  pattern.finish();
  return read;
}

std::unique_ptr<const Normalizer> read_replace(JsonFields& fields, const std::string& where) {
  Pattern pattern = read_pattern(fields, where);
  std::string content = fields.text("content");
  if (pattern.regex) {
    return std::make_unique<ReplaceRegex>(std::move(*pattern.regex), std::move(content));
  }
  return std::make_unique<Replace>(std::move(pattern.text), std::move(content));
}

template <Form form>
void add_form(JsonFields&, const std::string&, Normalizers& list) {
  list.push_back(std::make_unique<UnicodeNormalizer>(form));
}

template <typename One>
void add_normalizer(JsonFields&, const std::string&, Normalizers& list) {
  list.push_back(std::make_unique<One>());
}

void add_strip(JsonFields& fields, const std::string&, Normalizers& list) {
  list.push_back(std::make_unique<Strip>(fields.boolean("strip_left", true),
                                         fields.boolean("strip_right", true)));
}

void add_prepend(JsonFields& fields, const std::string&, Normalizers& list) {
  list.push_back(std::make_unique<Prepend>(fields.text("prepend")));
}

void add_replace(JsonFields& fields, const std::string& where, Normalizers& list) {
  list.push_back(read_replace(fields, where));
}

void add_bert(JsonFields& fields, const std::string&, Normalizers& list) {
  BertOptions options;
  options.clean_text = fields.boolean("clean_text", true);
  options.handle_chinese_chars = fields.boolean("handle_chinese_chars", true);
  options.lowercase = fields.boolean("lowercase", true);
  options.strip_accents = fields.boolean("strip_accents", options.lowercase);
  list.push_back(std::make_unique<BertNormalizer>(options));
}

constexpr Kind<Normalizers> kNormalizers[] = {{"NFC", add_form<Form::nfc>},
                                              {"NFD", add_form<Form::nfd>},
                                              {"NFKC", add_form<Form::nfkc>},
                                              {"NFKD", add_form<Form::nfkd>},
                                              {"Lowercase", add_normalizer<Lowercase>},
                                              {"Strip", add_strip},
                                              {"StripAccents", add_normalizer<StripAccents>},
                                              {"Prepend", add_prepend},
                                              {"Replace", add_replace},
                                              {"ByteLevel", add_normalizer<ByteLevelNormalizer>},
                                              {"BertNormalizer", add_bert}};

Behavior read_behavior(JsonFields& fields, const std::string& fallback) {
  static const std::pair<const char*, Behavior> all[] = {
      {"Removed", Behavior::removed},
      {"Isolated", Behavior::isolated},
      {"Contiguous", Behavior::contiguous},
      {"MergedWithPrevious", Behavior::merged_with_previous},
      {"MergedWithNext", Behavior::merged_with_next}};
  const std::string name = fields.text("behavior", fallback);
  for (const auto& [known, behavior] : all) {
    if (name == known) return behavior;
  }
  refuse(ErrorCode::unsupported, fields.path_of("behavior"), "{} is not understood", quote(name));
}

void add_byte_level(JsonFields& fields, const std::string&, PreTokenizers& list) {
  fields.ignore("trim_offsets");
  list.push_back(std::make_unique<ByteLevel>(fields.boolean("add_prefix_space", true),
                                             fields.boolean("use_regex", true)));
}

void add_split(JsonFields& fields, const std::string& where, PreTokenizers& list) {
  Pattern pattern = read_pattern(fields, where);
  const Behavior behavior = read_behavior(fields, "");
  const bool invert = fields.boolean("invert", false);
  if (pattern.regex) {
    list.push_back(std::make_unique<Split>(std::move(*pattern.regex), behavior, invert));
  } else {
    list.push_back(std::make_unique<Split>(std::move(pattern.text), behavior, invert));
  }
}

void add_digits(JsonFields& fields, const std::string&, PreTokenizers& list) {
  const bool single = fields.boolean("individual_digits", false);
  list.push_back(std::make_unique<SplitCharacters>(
      is_numeric, single ? Behavior::isolated : Behavior::contiguous));
}

void add_punctuation(JsonFields& fields, const std::string&, PreTokenizers& list) {
  list.push_back(
      std::make_unique<SplitCharacters>(is_punctuation, read_behavior(fields, "Isolated")));
}

void add_whitespace_split(JsonFields&, const std::string&, PreTokenizers& list) {
  list.push_back(std::make_unique<SplitCharacters>(is_whitespace, Behavior::removed));
}

void add_whitespace(JsonFields&, const std::string& where, PreTokenizers& list) {
  list.push_back(std::make_unique<Split>(Regex(R"(\w+|[^\w\s]+)", where, Dialect::rust),
                                         Behavior::removed, true));
}

void add_bert_split(JsonFields& fields, const std::string& where, PreTokenizers& list) {
  add_whitespace_split(fields, where, list);
  list.push_back(std::make_unique<SplitCharacters>(is_punctuation, Behavior::isolated));
}

void add_delimiter(JsonFields& fields, const std::string&, PreTokenizers& list) {
  list.push_back(std::make_unique<Split>(fields.text("delimiter"), Behavior::removed, false));
}

struct MetaspaceFields {
  std::string replacement;
  PrependScheme scheme;
  bool split;
};

// Old files say add_prefix_space, new ones prepend_scheme, some both.
MetaspaceFields read_metaspace(JsonFields& fields) {
  fields.ignore("str_rep");
  MetaspaceFields read{fields.text("replacement"), PrependScheme::always,
                       fields.boolean("split", true)};
  const bool prepends = fields.boolean("add_prefix_space", true);
  const std::string scheme = fields.text("prepend_scheme", prepends ? "always" : "never");
  if (scheme == "first") {
    read.scheme = PrependScheme::first;
  } else if (scheme == "never") {
    read.scheme = PrependScheme::never;
  } else if (scheme != "always") {
    refuse(ErrorCode::unsupported, fields.path_of("prepend_scheme"), "{} is not understood",
           quote(scheme));
  }
  if (read.replacement.empty()) refuse(fields.path_of("replacement"), "it is empty");
  return read;
}

void add_metaspace(JsonFields& fields, const std::string&, PreTokenizers& list) {
  MetaspaceFields read = read_metaspace(fields);
  list.push_back(std::make_unique<Metaspace>(std::move(read.replacement), read.scheme, read.split));
}

constexpr Kind<PreTokenizers> kPreTokenizers[] = {{"ByteLevel", add_byte_level},
                                                  {"Split", add_split},
                                                  {"Digits", add_digits},
                                                  {"Punctuation", add_punctuation},
                                                  {"Whitespace", add_whitespace},
                                                  {"WhitespaceSplit", add_whitespace_split},
                                                  {"BertPreTokenizer", add_bert_split},
                                                  {"CharDelimiterSplit", add_delimiter},
                                                  {"Metaspace", add_metaspace}};

template <typename One>
void add_decoder(JsonFields&, const std::string&, Decoders& list) {
  list.push_back(std::make_unique<One>());
}

void add_byte_level_decoder(JsonFields& fields, const std::string&, Decoders& list) {
  for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) fields.ignore(key);
  list.push_back(std::make_unique<ByteLevelDecoder>());
}

void add_strip_decoder(JsonFields& fields, const std::string&, Decoders& list) {
  const std::string character = fields.text("content");
  std::size_t end = 0;
  if (!character.empty()) next_character(character, end);
  if (character.empty() || end != character.size()) {
    refuse(fields.path_of("content"), "{} where one character belongs", quote(character));
  }
  const auto count = [&](const char* key) {
    return static_cast<std::size_t>(fields.integer(key, 0, 1 << 20));
  };
  list.push_back(std::make_unique<StripDecoder>(character, count("start"), count("stop")));
}

void add_replace_decoder(JsonFields& fields, const std::string& where, Decoders& list) {
  list.push_back(std::make_unique<ReplaceDecoder>(read_replace(fields, where)));
}

void add_metaspace_decoder(JsonFields& fields, const std::string&, Decoders& list) {
  MetaspaceFields read = read_metaspace(fields);
  list.push_back(std::make_unique<MetaspaceDecoder>(std::move(read.replacement),
                                                    read.scheme != PrependScheme::never));
}

void add_bpe_decoder(JsonFields& fields, const std::string&, Decoders& list) {
  list.push_back(std::make_unique<BpeDecoder>(fields.text("suffix", "</w>")));
}

constexpr Kind<Decoders> kDecoders[] = {
    {"ByteLevel", add_byte_level_decoder}, {"ByteFallback", add_decoder<ByteFallback>},
    {"Fuse", add_decoder<Fuse>},           {"Strip", add_strip_decoder},
    {"Replace", add_replace_decoder},      {"Metaspace", add_metaspace_decoder},
    {"BPEDecoder", add_bpe_decoder}};

}  // namespace

Normalizers read_normalizers(const Json& json, const std::string& where) {
  Normalizers list;
  read_component(json, where, "normalizers", kNormalizers, list);
  return list;
}

PreTokenizers read_pre_tokenizers(const Json& json, const std::string& where) {
  PreTokenizers list;
  read_component(json, where, "pretokenizers", kPreTokenizers, list);
  return list;
}

Decoders read_decoders(const Json& json, const std::string& where) {
  Decoders list;
  if (json.is_null()) {
    list.push_back(std::make_unique<JoinByBlanks>());
  } else {
    read_component(json, where, "decoders", kDecoders, list);
  }
  return list;
}

}  // namespace tessera::tokenizer
