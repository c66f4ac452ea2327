#include <fmt/format.h>

#include <filesystem>

#include "core_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/value.h"

namespace tessera {
namespace {

const OptionTable& model_options() {
  static const OptionTable table{
      "ts.model",
      "A decoder-only architecture: a shipped name (\"opt-30b\"), a Hugging Face config.json, or "
      "sizes.",
      "tessera.Model",
      {{.name = "config",
        .type = OptionType::text,
        .doc = "Path of a config.json, or of the folder that holds it"},
       {.name = "name", .type = OptionType::text, .doc = "Name to refer to it by"},
       {.name = "family",
        .type = OptionType::text,
        .doc = "Whose conventions hold for norms, biases and positions: opt, llama, qwen2, ..."},
       {.name = "num_layers",
        .type = OptionType::integer,
        .doc = "Decoder layers",
        .min = 1,
        .max = 10000},
       {.name = "hidden_size",
        .type = OptionType::integer,
        .doc = "Width of the residual stream",
        .min = 1,
        .max = 16777216},
       {.name = "num_heads",
        .type = OptionType::integer,
        .doc = "Query heads",
        .min = 1,
        .max = 65536},
       {.name = "num_kv_heads",
        .type = OptionType::integer,
        .doc = "Key and value heads; default: num_heads",
        .min = 1,
        .max = 65536},
       {.name = "head_dim",
        .type = OptionType::integer,
        .doc = "Width of a head; default: hidden_size / num_heads",
        .min = 1,
        .max = 65536},
       {.name = "ffn_size",
        .type = OptionType::integer,
        .doc = "Width of the feed-forward network (of one expert)",
        .min = 1,
        .max = 16777216},
       {.name = "vocab_size",
        .type = OptionType::integer,
        .doc = "Tokens in the vocabulary",
        .min = 1,
        .max = 268435456},
       {.name = "max_context_tokens",
        .type = OptionType::integer,
        .doc = "Longest context",
        .unit = "tokens",
        .min = 1,
        .max = 268435456},
       {.name = "gated_ffn",
        .type = OptionType::boolean,
        .doc = "Three matrices instead of two; checked against the family"},
       {.name = "tied_embeddings",
        .type = OptionType::boolean,
        .doc = "The LM head is the token embedding"},
       {.name = "num_experts",
        .type = OptionType::integer,
        .doc = "Experts per layer (mixture-of-experts families)",
        .min = 1,
        .max = 65536},
       {.name = "num_active_experts",
        .type = OptionType::integer,
        .doc = "Experts that one token visits",
        .min = 1,
        .max = 65536},
       {.name = "attention_window",
        .type = OptionType::integer,
        .doc = "Sliding-window attention",
        .unit = "tokens",
        .min = 1,
        .max = 268435456}},
      "string"};
  return table;
}

std::int64_t required(const lua_kit::Options& options, const char* name) {
  if (!options.given(name)) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} is missing; give it, or config = \"path/config.json\", or a shipped name",
                    options.path_of(name)),
        options.path_of(name));
  }
  return options.integer(name);
}

ModelShape model_from_options(const lua_kit::Options& options) {
  ModelSpec spec;
  if (options.given("name")) spec.name = options.text("name");
  if (!options.given("family")) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is missing; give one of {}", options.path_of("family"),
                            join(known_model_families(), ", ")),
                options.path_of("family"));
  }
  spec.family = options.text("family");
  spec.num_layers = required(options, "num_layers");
  spec.hidden_size = required(options, "hidden_size");
  spec.num_heads = required(options, "num_heads");
  spec.ffn_size = required(options, "ffn_size");
  spec.vocab_size = required(options, "vocab_size");
  spec.max_context_tokens = required(options, "max_context_tokens");
  const auto optional = [&](const char* name, std::optional<std::int64_t>& field) {
    if (options.given(name)) field = options.integer(name);
  };
  optional("num_kv_heads", spec.num_kv_heads);
  optional("head_dim", spec.head_dim);
  optional("num_experts", spec.num_experts);
  optional("num_active_experts", spec.num_active_experts);
  optional("attention_window", spec.attention_window);
  if (options.given("gated_ffn")) spec.gated_ffn = options.boolean("gated_ffn");
  if (options.given("tied_embeddings")) spec.tied_embeddings = options.boolean("tied_embeddings");
  return model_from_spec(spec);
}

ModelShape model_from_file(const lua_kit::Options& options) {
  namespace fs = std::filesystem;
  options.refuse_others({"config", "name"}, "the config file says it; leave it out");
  fs::path file = options.text("config");
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) file /= "config.json";
  ModelShape model = model_from_json(read_json_file(file.string()), file.string());
  if (options.given("name")) model.name = options.text("name");
  return model;
}

double bitwidth_argument(lua_State* L) {
  return lua_kit::check_number(L, 2, "bitwidth", 1, 32, "bits");
}

int kv_bytes_per_token(lua_State* L) {
  const auto& model = *lua_kit::check_object<ModelShape>(L, 1, "model");
  lua_pushnumber(L, model.kv_bytes_per_token(lua_isnoneornil(L, 2) ? 16 : bitwidth_argument(L)));
  return 1;
}

int layer_bytes(lua_State* L) {
  const auto& model = *lua_kit::check_object<ModelShape>(L, 1, "model");
  lua_pushnumber(L, model.layer_bytes(bitwidth_argument(L)));
  return 1;
}

std::string summary(const ModelShape& m) {
  return fmt::format("model {}: {}, {} layers, {} parameters", m.name, m.family, m.num_layers,
                     format_count(static_cast<double>(m.num_parameters())));
}

}  // namespace

template <>
const lua_kit::ObjectType<ModelShape>& lua_kit::object_type<ModelShape>() {
  static const ObjectType<ModelShape> type{
      .name = "tessera.Model",
      .doc = "Architecture of a decoder-only transformer.",
      .fields = {{"name", "string", "Name",
                  [](lua_State* L, const ModelShape& m) { push_text(L, m.name); }},
                 {"family", "string", "Architecture family",
                  [](lua_State* L, const ModelShape& m) { push_text(L, m.family); }},
                 {"num_layers", "integer", "Decoder layers",
                  [](lua_State* L, const ModelShape& m) { push_integer(L, m.num_layers); }},
                 {"hidden_size", "integer", "Width of the residual stream",
                  [](lua_State* L, const ModelShape& m) { push_integer(L, m.hidden_size); }},
                 {"num_heads", "integer", "Query heads",
                  [](lua_State* L, const ModelShape& m) { push_integer(L, m.num_heads); }},
                 {"num_kv_heads", "integer", "Key and value heads",
                  [](lua_State* L, const ModelShape& m) { push_integer(L, m.num_kv_heads); }},
                 {"head_dim", "integer", "Width of a head",
                  [](lua_State* L, const ModelShape& m) { push_integer(L, m.head_dim); }},
                 {"ffn_size", "integer", "Width of the feed-forward network (of one expert)",
                  [](lua_State* L, const ModelShape& m) { push_integer(L, m.ffn_size); }},
                 {"vocab_size", "integer", "Vocabulary",
                  [](lua_State* L, const ModelShape& m) { push_integer(L, m.vocab_size); }},
                 {"max_context_tokens", "integer", "Longest context (tokens)",
                  [](lua_State* L, const ModelShape& m) { push_integer(L, m.max_context_tokens); }},
                 {"num_parameters", "integer", "All parameters, tied embeddings once",
                  [](lua_State* L, const ModelShape& m) { push_integer(L, m.num_parameters()); }},
                 {"num_active_parameters", "integer", "Parameters that one token passes through",
                  [](lua_State* L, const ModelShape& m) {
                    push_integer(L, m.num_active_parameters());
                  }},
                 {"layer_parameters", "integer", "Parameters of the first decoder layer",
                  [](lua_State* L, const ModelShape& m) { push_integer(L, m.layer_parameters()); }},
                 {"tied_embeddings", "boolean", "The LM head is the token embedding",
                  [](lua_State* L, const ModelShape& m) { lua_pushboolean(L, m.tied_embeddings); }},
                 {"source", "string", "Where the architecture was read",
                  [](lua_State* L, const ModelShape& m) { push_text(L, m.source); }}},
      .methods = {{"kv_bytes_per_token", guarded<kv_bytes_per_token>,
                   "(kv_bitwidth: number?): number",
                   "KV cache of one token over all layers (bytes); 16 bits by default"},
                  {"layer_bytes", guarded<layer_bytes>, "(bitwidth: number): number",
                   "Weights of the first decoder layer at a bitwidth (bytes), without scales"}},
      .summary = summary,
      .equal = [](const ModelShape& a, const ModelShape& b) { return a == b; }};
  return type;
}

namespace core_lua {

std::shared_ptr<const ModelShape> model_argument(lua_State* L, int index, const std::string& path) {
  if (const auto* held = lua_kit::test_object<ModelShape>(L, index)) return *held;
  if (lua_type(L, index) == LUA_TSTRING) {
    const std::string file =
        environment(L).folders.require("models", lua_kit::check_text(L, index, path), path);
    return std::make_shared<ModelShape>(model_from_json(read_json_file(file), file));
  }
  const lua_kit::Options options(L, index, model_options(), path);
  return std::make_shared<ModelShape>(options.given("config") ? model_from_file(options)
                                                              : model_from_options(options));
}

int new_model(lua_State* L) {
  lua_kit::push_object<ModelShape>(L, model_argument(L, 1, "ts.model"));
  return 1;
}

void register_model(lua_State* L) {
  lua_kit::register_object<ModelShape>(L);
  environment(L).reference.add_object<ModelShape>();
  environment(L).reference.add(model_options());
}

}  // namespace core_lua
}  // namespace tessera
