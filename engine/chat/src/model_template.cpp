#include <filesystem>

#include "tessera/chat/chat_template.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/text.h"
#include "tessera/weights/weights.h"

namespace tessera::chat {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;

// "<s>", or an object whose `content` is that.
std::string special_token(const Json& config, const char* name) {
  if (!config.contains(name)) return {};
  const Json& value = config[name];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string())
    return value["content"].get<std::string>();
  return {};
}

// A text, or a list of named ones, of which the default counts.
std::string template_in(const Json& config, const std::string& path) {
  if (!config.contains("chat_template")) return {};
  const Json& value = config["chat_template"];
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) refuse(path, "chat_template is neither a text nor a list of them");
  for (const Json& one : value) {
    const bool is_default = one.is_object() && one.contains("name") && one["name"] == "default" &&
                            one.contains("template") && one["template"].is_string();
    if (is_default) return one["template"].get<std::string>();
  }
  refuse(path, "none of its chat templates is called default");
}

ModelTemplate of_folder(const std::string& folder) {
  ModelTemplate found;
  const std::string config_path = folder + "/tokenizer_config.json";
  if (file_kind(config_path) != FileKind::none) {
    const Json config = read_json_file(config_path);
    if (!config.is_object()) refuse(config_path, "it is no object");
    found.special = {.bos_token = special_token(config, "bos_token"),
                     .eos_token = special_token(config, "eos_token"),
                     .unk_token = special_token(config, "unk_token"),
                     .pad_token = special_token(config, "pad_token")};
    found.text = template_in(config, config_path);
    found.source = config_path;
  }
  const std::string file = folder + "/chat_template.jinja";
  if (file_kind(file) == FileKind::none) return found;
  found.text = read_file(file, kMostBytes);
  found.source = file;
  return found;
}

ModelTemplate of_gguf(const std::string& path) {
  const auto weights = weights::Weights::open(path);
  const Json& config = weights->config();
  ModelTemplate found{.text = {}, .source = path};
  if (config.contains("tokenizer.chat_template") && config["tokenizer.chat_template"].is_string())
    found.text = config["tokenizer.chat_template"].get<std::string>();
  const auto texts = weights->metadata_texts("tokenizer.ggml.tokens");
  const auto token = [&](const char* key) -> std::string {
    const std::string name = std::string("tokenizer.ggml.") + key;
    if (!texts || !config.contains(name) || !config[name].is_number_integer()) return {};
    const auto id = config[name].get<std::uint64_t>();
    return id < texts->size() ? std::string((*texts)[id]) : std::string();
  };
  found.special = {.bos_token = token("bos_token_id"),
                   .eos_token = token("eos_token_id"),
                   .unk_token = token("unknown_token_id"),
                   .pad_token = token("padding_token_id")};
  return found;
}

}  // namespace

ModelTemplate template_of_model(const std::string& path, const std::string& file) {
  ModelTemplate found = file_kind(path) == FileKind::folder ? of_folder(path) : of_gguf(path);
  if (!file.empty()) {
    found.text = read_file(file, kMostBytes);
    found.source = file;
    return found;
  }
  if (found.text.empty()) {
    throw Error(ErrorCode::not_found, "there is no chat template with the model in " +
                                          quote(path, 300) + "; give one with --chat-template");
  }
  return found;
}

}  // namespace tessera::chat
