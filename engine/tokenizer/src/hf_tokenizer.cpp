#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "readers.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::tokenizer {
namespace {

constexpr std::size_t kMaxAddedToken = 1024;  // bytes; those of models have some dozens
constexpr std::size_t kMaxAddedTokens = 65'536;

struct Surroundings {
  std::vector<std::int32_t> before, after;
};

std::int32_t read_id(const Json& json, const std::string& where) {
  return static_cast<std::int32_t>(json_integer(json, where, 0, kMaxTokens));
}

std::vector<AddedToken> read_added_tokens(const Json& json, const std::string& where) {
  std::vector<AddedToken> tokens;
  check_array(json, where);
  if (json.size() > kMaxAddedTokens) {
    refuse(where, "{} tokens; the limit is {}", json.size(), kMaxAddedTokens);
  }
  std::unordered_map<std::string, std::int32_t> ids;
  for (const Json& entry : json) {
    JsonFields fields(entry, fmt::format("{}[{}]", where, tokens.size()));
    AddedToken token;
    token.id = read_id(fields.at("id"), fields.path_of("id"));
    token.text = fields.text("content");
    token.special = fields.boolean("special", false);
    token.single_word = fields.boolean("single_word", false);
    token.lstrip = fields.boolean("lstrip", false);
    token.rstrip = fields.boolean("rstrip", false);
    token.normalized = fields.boolean("normalized", !token.special);
    fields.finish();
    if (token.text.empty() || token.text.size() > kMaxAddedToken) {
      refuse(fields.path_of("content"), "{} bytes; 1 to {} belong there", token.text.size(),
             kMaxAddedToken);
    }
    if (!ids.emplace(token.text, token.id).second) {
      refuse(where, "{} is there twice, as {} and as {}", quote(token.text), ids[token.text],
             token.id);
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// { "type": "TemplateProcessing", "single": [{ "SpecialToken": ... }, { "Sequence": ... }], ... }
Surroundings read_template(JsonFields& fields) {
  const Json& items = fields.at("single");
  check_array(items, fields.path_of("single"));
  const Json& specials = fields.at("special_tokens");
  fields.ignore("pair");
  Surroundings around;
  int num_sequences = 0;
  for (const Json& item : items) {
    JsonFields one(item, fields.path_of("single"));
    if (one.has("Sequence")) {
      ++num_sequences;
      continue;
    }
    JsonFields special(one.at("SpecialToken"), one.path_of("SpecialToken"));
    const std::string name = special.text("id");
    if (!specials.is_object() || !specials.contains(name)) {
      refuse(fields.path_of("special_tokens"), "{} is not among them", quote(name));
    }
    JsonFields meaning(specials.at(name), fields.path_of("special_tokens"));
    const Json& ids = meaning.at("ids");
    check_array(ids, meaning.path_of("ids"));
    for (const Json& id : ids) {
      (num_sequences == 0 ? around.before : around.after)
          .push_back(read_id(id, meaning.path_of("ids")));
    }
  }
  if (num_sequences != 1) {
    refuse(ErrorCode::unsupported, fields.path_of("single"),
           "the text stands there {} times; once is understood", num_sequences);
  }
  return around;
}

// { "cls": ["<s>", 0], "sep": ["</s>", 2], ... }
Surroundings read_cls_sep(JsonFields& fields) {
  const auto id_of = [&](const char* key) {
    const Json& pair = fields.at(key);
    if (!pair.is_array() || pair.size() != 2) {
      refuse(fields.path_of(key), "{} is not [text, id]", quote(shown_json(pair)));
    }
    return read_id(pair[1], fields.path_of(key));
  };
  fields.ignore("trim_offsets");
  fields.ignore("add_prefix_space");
  return {{id_of("cls")}, {id_of("sep")}};
}

// Each surrounds what the one before it has made.
void add_post_processor(const Json& json, const std::string& where, Surroundings& all) {
  if (json.is_null()) return;
  JsonFields fields(json, where);
  const std::string type = fields.text("type");
  Surroundings one;
  if (type == "Sequence") {
    const Json& parts = fields.at("processors");
    check_array(parts, fields.path_of("processors"));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      add_post_processor(parts[i], fmt::format("{}[{}]", where, i), all);
    }
  } else if (type == "TemplateProcessing") {
    one = read_template(fields);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    one = read_cls_sep(fields);
  } else if (type == "ByteLevel") {  // moves offsets, which are not kept here
    for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) fields.ignore(key);
  } else {
    refuse(ErrorCode::unsupported, where,
           "the type {} is not understood; understood: TemplateProcessing, RobertaProcessing, "
           "BertProcessing, ByteLevel, Sequence",
           quote(type));
  }
  fields.finish();
  all.before.insert(all.before.begin(), one.before.begin(), one.before.end());
  all.after.insert(all.after.end(), one.after.begin(), one.after.end());
}

}  // namespace

// Padding and truncation are what callers set for a batch, and are not part of the tokenizer.
std::shared_ptr<const Tokenizer> load_hugging_face(const std::string& path) {
  const Json json = read_json_file(path);
  const std::string where = quote(path, 300);
  JsonFields fields(json, where);
  for (const char* key : {"version", "truncation", "padding"}) fields.ignore(key);
  const auto component = [&](const char* key) -> const Json& {
    static const Json none;
    return fields.has(key) ? fields.at(key) : none;
  };
  Parts parts;
  parts.path = path;
  parts.model = read_model(fields.at("model"), where + ": model");
  if (fields.has("added_tokens")) {
    parts.added_tokens = read_added_tokens(fields.at("added_tokens"), where + ": added_tokens");
  }
  parts.normalizers = read_normalizers(component("normalizer"), where + ": normalizer");
  parts.pre_tokenizers = read_pre_tokenizers(component("pre_tokenizer"), where + ": pre_tokenizer");
  parts.decoders = read_decoders(component("decoder"), where + ": decoder");
  Surroundings around;
  add_post_processor(component("post_processor"), where + ": post_processor", around);
  parts.before = std::move(around.before);
  parts.after = std::move(around.after);
  fields.finish();
  const Ends ends = ends_of(read_companions(path), [&](const std::string& text) {
    for (const AddedToken& token : parts.added_tokens) {
      if (token.text == text) return token.id;
    }
    return parts.model->vocabulary().find(text);
  });
  parts.bos = ends.bos;
  parts.eos = ends.eos;
  parts.stops = ends.stops;
  return std::make_shared<const Pipeline>(std::move(parts));
}

}  // namespace tessera::tokenizer
