#include <fmt/format.h>

#include <filesystem>

#include "core_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/value.h"

namespace tessera {
namespace {

const OptionTable& model_options() {
  static const OptionTable table = lua_kit::option_table<ModelSpec>(
      {"ts.model",
       "A decoder-only architecture: a shipped name (\"opt-30b\"), a Hugging Face config.json, or "
       "sizes.",
       "tessera.Model",
       {{.name = "config",
         .type = OptionType::text,
         .doc = "Path of a config.json, or of the folder that holds it"}},
       "string"});
  return table;
}

ModelShape model_from_options(const lua_kit::Options& options) {
  if (!options.given("family")) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is missing; give one of {}", options.path_of("family"),
                            join(known_model_families(), ", ")),
                options.path_of("family"));
  }
  for (const char* name :
       {"num_layers", "hidden_size", "num_heads", "ffn_size", "vocab_size", "max_context_tokens"}) {
    if (options.given(name)) continue;
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} is missing; give it, or config = \"path/config.json\", or a shipped name",
                    options.path_of(name)),
        options.path_of(name));
  }
  ModelSpec spec;
  lua_kit::read_options(options, spec);
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
      .fields = fields_of<ModelShape>(),
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
