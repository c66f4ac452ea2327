#include <fmt/format.h>

#include "bpe.h"
#include "readers.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "unigram.h"
#include "word_level.h"

namespace tessera::tokenizer {
namespace {

// { "text": id, ... }
std::shared_ptr<const Vocabulary> read_vocabulary(const Json& json, const std::string& where) {
  if (!json.is_object()) refuse(where, "no object of tokens and their ids");
  std::vector<Vocabulary::Entry> entries;
  entries.reserve(json.size());
  for (const auto& [text, id] : json.get_ref<const Json::object_t&>()) {
    if (!id.is_number_integer()) refuse(where, "the id of {} is no integer", quote(text));
    entries.push_back({text, json_integer(id, where, 0, kMaxTokens - 1)});
  }
  return std::make_shared<const Vocabulary>(entries, where);
}

std::int32_t unknown_token(JsonFields& fields, const Vocabulary& vocabulary,
                           const std::string& where) {
  if (!fields.has("unk_token")) return kNoToken;
  return vocabulary.require(fields.text("unk_token"), where, "the unknown token");
}

// "a b", or ["a", "b"], which allows blanks in the parts.
Bpe::Merge read_merge(const Json& json, std::size_t index, const std::string& where) {
  if (json.is_array() && json.size() == 2 && json[0].is_string() && json[1].is_string()) {
    return {json[0].get_ref<const std::string&>(), json[1].get_ref<const std::string&>()};
  }
  if (json.is_string()) {
    const std::string_view text = json.get_ref<const std::string&>();
    const std::size_t blank = text.find(' ');
    if (blank != std::string_view::npos && text.find(' ', blank + 1) == std::string_view::npos) {
      return {text.substr(0, blank), text.substr(blank + 1)};
    }
  }
  refuse(where, "merge {} is {}; two tokens belong there, as \"a b\" or [\"a\", \"b\"]", index,
         quote(shown_json(json)));
}

std::unique_ptr<const Model> read_bpe(JsonFields& fields, const std::string& where) {
  const auto vocabulary = read_vocabulary(fields.at("vocab"), where + ".vocab");
  const Json& list = fields.at("merges");
  check_array(list, where + ".merges");
  std::vector<Bpe::Merge> merges;
  merges.reserve(list.size());
  for (const Json& merge : list) merges.push_back(read_merge(merge, merges.size(), where));
  if (fields.number("dropout", 0, 1, 0) > 0) {
    refuse(ErrorCode::unsupported, where,
           "dropout, which cuts the same text differently each time");
  }
  BpeOptions options;
  options.unknown = unknown_token(fields, *vocabulary, where);
  options.prefix = fields.text("continuing_subword_prefix", "");
  options.suffix = fields.text("end_of_word_suffix", "");
  options.fuse_unknown = fields.boolean("fuse_unk", false);
  options.byte_fallback = fields.boolean("byte_fallback", false);
  options.ignore_merges = fields.boolean("ignore_merges", false);
  if (options.byte_fallback && !(options.prefix + options.suffix).empty()) {
    refuse(ErrorCode::unsupported, where, "byte_fallback with a prefix or a suffix");
  }
  return std::make_unique<Bpe>(vocabulary, merges, std::move(options), where);
}

std::unique_ptr<const Model> read_unigram(JsonFields& fields, const std::string& where) {
  const Json& list = fields.at("vocab");
  check_array(list, where + ".vocab", "an array of [text, score]");
  std::vector<Vocabulary::Entry> entries;
  std::vector<double> scores;
  for (const Json& entry : list) {
    const std::string at = fmt::format("{}.vocab[{}]", where, entries.size());
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string()) {
      refuse(at, "{} is not [text, score]", quote(shown_json(entry)));
    }
    entries.push_back(
        {entry[0].get_ref<const std::string&>(), static_cast<std::int64_t>(entries.size())});
    scores.push_back(json_number(entry[1], at, -1e9, 1e9));
  }
  const auto vocabulary = std::make_shared<const Vocabulary>(entries, where + ".vocab");
  const auto last = static_cast<std::int64_t>(entries.size()) - 1;
  const std::int64_t unknown = fields.integer("unk_id", 0, last, kNoToken);
  return std::make_unique<Unigram>(vocabulary, std::move(scores),
                                   static_cast<std::int32_t>(unknown),
                                   fields.boolean("byte_fallback", false), where);
}

std::unique_ptr<const Model> read_word_level(JsonFields& fields, const std::string& where) {
  const auto vocabulary = read_vocabulary(fields.at("vocab"), where + ".vocab");
  return std::make_unique<WordLevel>(vocabulary, unknown_token(fields, *vocabulary, where), where);
}

// Old files do not name the type: it shows in what they have.
std::string type_of_model(JsonFields& fields) {
  if (fields.has("type")) return fields.text("type");
  if (fields.has("merges")) return "BPE";
  if (fields.has("unk_id")) return "Unigram";
  return "";
}

}  // namespace

std::unique_ptr<const Model> read_model(const Json& json, const std::string& where) {
  JsonFields fields(json, where);
  const std::string type = type_of_model(fields);
  std::unique_ptr<const Model> model;
  if (type == "BPE") {
    model = read_bpe(fields, where);
  } else if (type == "Unigram") {
    model = read_unigram(fields, where);
  } else if (type == "WordLevel") {
    model = read_word_level(fields, where);
  } else {
    refuse(ErrorCode::unsupported, where,
           "the type {} is not understood; BPE, Unigram and WordLevel are", quote(type));
  }
  fields.finish();
  return model;
}

}  // namespace tessera::tokenizer
