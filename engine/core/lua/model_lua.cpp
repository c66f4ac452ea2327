#include <fmt/format.h>

#include <filesystem>

#include "core_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/hub_link.h"
#include "tessera/core/json.h"
#include "tessera/core/model_id.h"
#include "tessera/core/stored_format.h"
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
       "A decoder-only architecture: a path (a config.json, the folder that holds it, a .gguf or "
       ".safetensors file), a shipped name (\"opt-30b\"), the Hugging Face id of one that ships, "
       "or "
       "any usual spelling of it with -Instruct, -AWQ, ollama's tag and the like, which is kept as "
       "checkpoint; an id or an address of the hub (https://huggingface.co/...) whose files are in "
       "its cache; or sizes. A path that exists wins over a name.",
       "tessera.Model",
       {{.name = "config",
         .type = OptionType::text,
         .doc = "Path of a config.json, of the folder that holds it, or of a file of weights"}},
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

bool is_weights(const std::filesystem::path& file) {
  return file.extension() == ".gguf" || file.extension() == ".safetensors";
}

/// Whether a .gguf file lies in the folder.
bool holds_weights(const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".gguf") return true;
  }
  return false;
}

// The checkpoint that is meant is the folder, in the format that its configuration tells.
void note_folder(ModelShape& model, const Json& config, const std::filesystem::path& folder) {
  const StoredFormat found = stored_format(config, folder.string());
  std::string path = std::filesystem::absolute(folder).lexically_normal().string();
  if (path.size() > 1 && path.ends_with('/')) path.pop_back();
  model.checkpoint = std::move(path);
  model.checkpoint_format = found.format;
  model.checkpoint_bits = found.bits;
  model.checkpoint_group_size = found.group_size;
  if (found.format)
    model.checkpoint_kept = kept_linears(kept_modules(config, folder.string()), model);
}

/// Of a config.json, the folder that holds it, or a file of weights.
ModelShape model_at(std::filesystem::path file, const core_lua::Environment& environment) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    const bool configured = std::filesystem::exists(file / "config.json", ignored);
    if (!configured && holds_weights(file)) return environment.model_of_weights(file.string());
    file /= "config.json";
  }
  if (is_weights(file)) {
    ModelShape model = environment.model_of_weights(file.string());
    const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
    const std::filesystem::path config = folder / "config.json";
    if (!model.checkpoint && std::filesystem::exists(config, ignored))
      note_folder(model, read_config_file(config.string()), folder);
    return model;
  }
  const Json config = read_config_file(file.string());
  ModelShape model = model_from_json(config, file.string());
  if (file.filename() == "config.json") note_folder(model, config, file.parent_path());
  return model;
}

ModelShape model_from_file(const lua_kit::Options& options, const core_lua::Environment& all) {
  options.refuse_others({"config", "name"}, "the config file says it; leave it out");
  ModelShape model = model_at(options.text("config"), all);
  if (options.given("name")) model.name = options.text("name");
  return model;
}

/// Whether `name` is a path that speaks of a model. A folder of the name of a model that has no
/// config.json in it is something else.
bool is_path_of_model(const std::string& name, bool has_slash) {
  if (name.ends_with(".json") || is_weights(name)) return true;
  if (file_kind(name) == FileKind::none) return false;
  std::error_code ignored;
  return has_slash ||
         std::filesystem::exists(std::filesystem::path(name) / "config.json", ignored) ||
         holds_weights(name);
}

[[noreturn]] void refuse_model(const std::string& name, const NamedModel& found,
                               const DataFolders& folders, const std::string& where) {
  const std::vector<std::string> known = folders.list("models");
  const std::string word = nearest_names(name, known).empty() ? found.id.stem : name;
  std::string problem;
  if (name.find(" + ") != std::string::npos) {
    problem = ": name the model alone; what drafts for it is ts.engine { speculative = }";
  } else if (!found.why_not.empty()) {
    problem = ": " + found.why_not;
  } else if (!found.several.empty()) {
    constexpr std::size_t kShown = 6;
    std::vector<std::string> shown = found.several;
    const std::size_t more = shown.size() > kShown ? shown.size() - kShown : 0;
    shown.resize(shown.size() - more);
    if (more > 0) shown.push_back(fmt::format("{} others", more));
    problem = fmt::format(": it may be {}; write which", join(shown, " or "));
  } else if (!nearest_names(word, known).empty()) {
    problem = did_you_mean(word, known);
  } else {
    problem =
        fmt::format(": none of the {} that ship is called so (tessera help models)", known.size());
  }
  refuse(ErrorCode::not_found, where, "unknown model {}{}; or give the path of its config.json",
         quote(name), problem);
}

ModelShape model_named(const std::string& name, const core_lua::Environment& environment,
                       const std::string& where);

/// Of an address of the hub: what its cache has of it, else the shape of its id.
ModelShape model_of_link(const HubLink& link, const core_lua::Environment& environment,
                         const std::string& where) {
  if (const std::string path = in_hub_cache(link); !path.empty())
    return model_at(path, environment);
  if (link.file.empty() && !find_model(link.id, environment.folders).file.empty())
    return model_named(link.id, environment, where);
  refuse(
      ErrorCode::not_found, where,
      "{} is not in the hub's cache, {}, and nothing is downloaded here; fetch it by hf download "
      "{} {}",
      quote(link.id + (link.file.empty() ? "" : "/" + link.file)), quote(hub_cache(), 300), link.id,
      link.file.empty() ? "config.json" : link.file);
}

/// A path wins over a name: "dir", "x/config.json", "x.gguf"; then names and Hugging Face ids, and
/// what the hub's cache has of these.
ModelShape model_named(const std::string& name, const core_lua::Environment& environment,
                       const std::string& where) {
  if (const auto link = hub_link(name)) return model_of_link(*link, environment, where);
  const DataFolders& folders = environment.folders;
  const bool has_slash = name.find('/') != std::string::npos;
  const bool is_path = is_path_of_model(name, has_slash);
  const bool absent = !has_slash && is_weights(name) && file_kind(name) == FileKind::none;
  if (is_path && !absent) return model_at(name, environment);
  const NamedModel found = find_model(name, folders);
  if (absent && found.file.empty()) return model_at(name, environment);  // says what is welcome
  if (absent) {
    refuse(ErrorCode::not_found, quote(name), "no such file or folder; {} plans without it",
           quote(std::filesystem::path(name).stem().string()));
  }
  if (found.file.empty()) {
    if (const std::string path = in_hub_cache({.id = name}); !path.empty())
      return model_at(path, environment);
    refuse_model(name, found, folders, where);
  }
  ModelShape model = model_from_json(read_json_file(found.file), found.file);
  if (!found.is_name) {
    model.checkpoint = name;
    if (found.id.format) model.checkpoint_format = found.id.format;
    if (found.id.bits) model.checkpoint_bits = found.id.bits;
  }
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

// ", of Qwen/Qwen2.5-7B-Instruct-AWQ: awq, 4 bits"
std::string checkpoint_words(const ModelShape& m) {
  if (!m.checkpoint) return "";
  std::string words = ", of " + quote(*m.checkpoint, 120);
  if (m.checkpoint_format) words += ": " + *m.checkpoint_format;
  if (m.checkpoint_bits) words += fmt::format(", {:g} bits", *m.checkpoint_bits);
  return words;
}

// " (30 of gated delta net, experts; 10 of attention, experts; state 62.8 MiB a sequence)"
std::string kinds_words(const ModelShape& m) {
  const std::string kinds = m.layer_kinds();
  std::vector<std::string> words;
  if (!kinds.empty()) words.push_back(kinds);
  if (m.has_state())
    words.push_back("state " + format_bytes(m.state_bytes_per_sequence()) + " a sequence");
  return words.empty() ? "" : " (" + join(words, "; ") + ")";
}

std::string summary(const ModelShape& m) {
  return fmt::format("model {}: {}, {} layers, {} parameters{}", m.name, m.family, m.num_layers,
                     format_count(static_cast<double>(m.num_parameters())),
                     kinds_words(m) + checkpoint_words(m));
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
    return std::make_shared<ModelShape>(
        model_named(lua_kit::check_text(L, index, path), environment(L), path));
  }
  const lua_kit::Options options(L, index, model_options(), path);
  return std::make_shared<ModelShape>(options.given("config")
                                          ? model_from_file(options, environment(L))
                                          : model_from_options(options));
}

/// model_id(name): { stem =, tuning =, format =, bits = }, what the name of a checkpoint or of a
/// file of weights tells; fields that it does not tell are absent.
int model_id(lua_State* L) {
  const ModelId id = parse_model_id(lua_kit::check_text(L, 1, "name"));
  lua_createtable(L, 0, 4);
  lua_kit::set_text(L, "stem", id.stem);
  if (!id.tuning.empty()) lua_kit::set_text(L, "tuning", id.tuning);
  if (id.format) lua_kit::set_text(L, "format", *id.format);
  if (id.bits) lua_kit::set_number(L, "bits", *id.bits);
  return 1;
}

/// stored_format(folder): format and bits of a checkpoint's weights as its configuration says; nil
/// each where it does not.
int stored_format(lua_State* L) {
  const std::string folder = lua_kit::check_text(L, 1, "folder");
  const auto config = std::filesystem::path(folder) / "config.json";
  const StoredFormat found = tessera::stored_format(read_config_file(config.string()), folder);
  found.format ? lua_kit::push_text(L, *found.format) : lua_pushnil(L);
  found.bits ? lua_pushnumber(L, *found.bits) : lua_pushnil(L);
  return 2;
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
