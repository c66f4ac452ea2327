#include <algorithm>
#include <filesystem>

#include "readers.h"
#include "tessera/core/files.h"

namespace tessera::tokenizer {
namespace {

// The object in a file of the tokenizer's folder; null where there is no such file.
Json read_beside(const std::string& tokenizer_path, const char* name, std::string& path) {
  path = (std::filesystem::path(tokenizer_path).parent_path() / name).string();
  if (file_kind(path) == FileKind::none) return nullptr;
  return read_json_file(path);
}

// "<s>", or an object whose `content` is that.
std::optional<std::string> token_field(JsonFields& fields, const char* key) {
  if (!fields.has(key)) return std::nullopt;
  const Json& value = fields.at(key);
  if (!value.is_object()) return json_string(value, fields.path_of(key));
  return JsonFields(value, fields.path_of(key)).text("content");
}

std::optional<bool> flag(JsonFields& fields, const char* key) {
  if (!fields.has(key)) return std::nullopt;
  return fields.boolean(key, false);
}

// A number, or several.
std::vector<std::int32_t> ids_field(JsonFields& fields, const char* key) {
  if (!fields.has(key)) return {};
  const Json& value = fields.at(key);
  if (value.is_array()) {
    return json_integers(value, fields.path_of(key), 0, static_cast<std::int32_t>(kMaxTokens));
  }
  return {static_cast<std::int32_t>(fields.integer(key, 0, kMaxTokens))};
}

}  // namespace

Companions read_companions(const std::string& tokenizer_path) {
  Companions found;
  std::string path;
  if (const Json json = read_beside(tokenizer_path, "tokenizer_config.json", path);
      !json.is_null()) {
    JsonFields fields(json, path);
    found.bos_token = token_field(fields, "bos_token");
    found.eos_token = token_field(fields, "eos_token");
    found.add_bos_token = flag(fields, "add_bos_token");
    found.add_eos_token = flag(fields, "add_eos_token");
    found.legacy = flag(fields, "legacy");
  }
  if (const Json json = read_beside(tokenizer_path, "config.json", path); !json.is_null()) {
    JsonFields fields(json, path);
    if (fields.has("bos_token_id") && fields.at("bos_token_id").is_number()) {
      found.bos_token_id = static_cast<std::int32_t>(fields.integer("bos_token_id", 0, kMaxTokens));
    }
    found.eos_token_ids = ids_field(fields, "eos_token_id");
  }
  if (const Json json = read_beside(tokenizer_path, "generation_config.json", path);
      !json.is_null()) {
    JsonFields fields(json, path);
    if (fields.has("eos_token_id")) found.stop_token_ids = ids_field(fields, "eos_token_id");
  }
  return found;
}

Ends ends_of(const Companions& companions,
             const std::function<std::int32_t(const std::string&)>& id_of) {
  const auto id_of_text =
      [&](const std::optional<std::string>& text) -> std::optional<std::int32_t> {
    const std::int32_t id = text ? id_of(*text) : kNoToken;
    return id == kNoToken ? std::nullopt : std::optional(id);
  };
  Ends ends{id_of_text(companions.bos_token), id_of_text(companions.eos_token), {}};
  ends.stops = companions.stop_token_ids.value_or(companions.eos_token_ids);
  if (!ends.bos) ends.bos = companions.bos_token_id;
  if (!ends.eos && !ends.stops.empty()) ends.eos = ends.stops.front();
  if (ends.eos) ends.stops.push_back(*ends.eos);
  return ends;
}

}  // namespace tessera::tokenizer
