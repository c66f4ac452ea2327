#include "weights_lua.h"

#include <fmt/format.h>

#include <utility>

#include "core_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/value.h"
#include "tessera/weights/linears.h"
#include "tessera/weights/unpack_gguf.h"

namespace tessera {
namespace {

using weights::LinearWeight;
using weights::Tensor;
using weights::TensorInfo;
using weights::Weights;

const OptionTable& weights_options() {
  static const OptionTable table{
      "ts.weights",
      "The weights of a model on disk, mapped and not copied: safetensors (one file, sharded with "
      "an index, or a folder of them) or GGUF.",
      "tessera.Weights",
      {{.name = "path",
        .type = OptionType::text,
        .doc = "A .safetensors or .gguf file, or the folder that holds it",
        .required = true}},
      "string"};
  return table;
}

const std::shared_ptr<const Weights>& weights_self(lua_State* L) {
  return lua_kit::check_object<Weights>(L, 1, "weights");
}

void push_info(lua_State* L, const TensorInfo& tensor) {
  lua_createtable(L, 0, 6);
  lua_kit::set_text(L, "name", tensor.name);
  lua_kit::set_text(L, "dtype", to_string(tensor.dtype));
  lua_kit::set_numbers(L, "shape", {tensor.shape.begin(), tensor.shape.end()});
  lua_kit::set_text(L, "file", tensor.file);
  lua_kit::set_integer(L, "offset_bytes", static_cast<std::int64_t>(tensor.offset_bytes));
  lua_kit::set_integer(L, "size_bytes", static_cast<std::int64_t>(tensor.size_bytes));
}

// Upvalues: the weights, and how many tensors were given.
int next_tensor(lua_State* L) {
  const auto& weights = *lua_kit::check_object<Weights>(L, lua_upvalueindex(1), "weights");
  const auto index = static_cast<std::size_t>(
      lua_kit::check_integer(L, lua_upvalueindex(2), "tensors given", 0, 1e9));
  if (index >= weights.tensors().size()) return 0;
  push_info(L, weights.tensors()[index]);
  lua_pushinteger(L, static_cast<lua_Integer>(index + 1));
  lua_replace(L, lua_upvalueindex(2));
  return 1;
}

int tensors(lua_State* L) {
  weights_self(L);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, 0);
  lua_pushcclosure(L, lua_kit::guarded<next_tensor>, 2);
  return 1;
}

int tensor(lua_State* L) {
  const auto& weights = weights_self(L);
  const TensorInfo& info = weights->require(lua_kit::check_text(L, 2, "weights:tensor name"));
  lua_kit::push_object<Tensor>(L, std::make_shared<Tensor>(weights, info));
  return 1;
}

int model(lua_State* L) {
  lua_kit::push_object<ModelShape>(
      L, std::make_shared<ModelShape>(weights::model_of(*weights_self(L))));
  return 1;
}

int bitwidths(lua_State* L) {
  const auto& file = weights_self(L);
  const auto found = weights::stored_bitwidths(*file, weights::model_of(*file));
  lua_createtable(L, static_cast<int>(found.size()), 0);
  for (std::size_t i = 0; i < found.size(); ++i) {
    lua_pushinteger(L, found[i]);
    lua_rawseti(L, -2, static_cast<int>(i + 1));
  }
  return 1;
}

// One matrix, checked like all of them: a checkpoint with a hole is broken wherever it is read.
int linear(lua_State* L) {
  const auto& file = weights_self(L);
  const ModelShape shape = weights::model_of(*file);
  const auto layer = lua_kit::check_integer(L, 2, "weights:linear layer_index", 0,
                                            static_cast<double>(shape.num_layers - 1));
  const std::string name = lua_kit::check_text(L, 3, "weights:linear name");
  std::vector<std::string> known;
  for (const LinearShape& one : shape.layer(layer).linears) {
    known.push_back(one.name);
    if (one.name != name) continue;
    const std::int64_t expert =
        lua_isnoneornil(L, 4) ? 0
                              : lua_kit::check_integer(L, 4, "weights:linear expert_index", 0,
                                                       static_cast<double>(one.num_copies - 1));
    lua_kit::push_object<Tensor>(
        L, std::make_shared<Tensor>(file, weights::linear_of(*file, shape, layer, one, expert)));
    return 1;
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("weights:linear: no linear {} in layer {}{}", quote(name), layer,
                          did_you_mean(name, known)),
              "weights:linear name");
}

int new_weights(lua_State* L) {
  lua_kit::push_object<Weights>(L, weights_lua::weights_argument(L, 1, "ts.weights"));
  return 1;
}

}  // namespace

template <>
const lua_kit::ObjectType<Weights>& lua_kit::object_type<Weights>() {
  static const ObjectType<Weights> type{
      .name = "tessera.Weights",
      .doc = "The weights of a model on disk; nothing is read before it is asked for.",
      .fields = {{"path", "string", "As given",
                  [](lua_State* L, const Weights& w) { push_text(L, w.path()); }},
                 {"files", "string[]", "The files behind it",
                  [](lua_State* L, const Weights& w) { push_texts(L, w.files()); }},
                 {"num_tensors", "integer", "Tensors in all files",
                  [](lua_State* L, const Weights& w) {
                    push_integer(L, static_cast<std::int64_t>(w.tensors().size()));
                  }},
                 {"size_bytes", "integer", "Of all tensors, as stored (bytes)",
                  [](lua_State* L, const Weights& w) {
                    push_integer(L, static_cast<std::int64_t>(w.size_bytes()));
                  }},
                 {"config", "table?", "config.json, or the metadata of a GGUF file",
                  [](lua_State* L, const Weights& w) { push_json(L, w.config()); }},
                 {"metadata", "table", "__metadata__ of a safetensors file",
                  [](lua_State* L, const Weights& w) { push_json(L, w.metadata()); }}},
      .methods = {{"tensors", guarded<tensors>, "(): fun(): table?",
                   "Iterates { name, dtype, shape, file, offset_bytes, size_bytes }, in the order "
                   "of the files"},
                  {"tensor", guarded<tensor>, "(name: string): tessera.Tensor",
                   "A tensor by its name in the file"},
                  {"model", guarded<model>, "(): tessera.Model",
                   "The architecture, from config.json or the metadata of a GGUF file"},
                  {"bitwidths", guarded<bitwidths>, "(): integer[]",
                   "Bits of each decoder layer's matrices as they are stored, rounded down; 16 for "
                   "numbers"},
                  {"linear", guarded<linear>,
                   "(layer_index: integer, name: string, expert_index: integer?): tessera.Tensor",
                   "A matrix by Tessera's name (\"q_proj\", \"experts.up_proj\"), out of a fused "
                   "tensor where it is stored in one; [out_features, in_features]"}},
      .summary =
          [](const Weights& w) {
            return fmt::format("weights {}: {} tensor{}, {} in {} file{}", w.path(),
                               w.tensors().size(), w.tensors().size() == 1 ? "" : "s",
                               format_bytes(static_cast<double>(w.size_bytes())), w.files().size(),
                               w.files().size() == 1 ? "" : "s");
          },
      .describe = weights_lua::print_weights};
  return type;
}

namespace weights_lua {

std::shared_ptr<const Weights> weights_argument(lua_State* L, int index, const std::string& path) {
  if (const auto* held = lua_kit::test_object<Weights>(L, index)) return *held;
  if (lua_type(L, index) == LUA_TSTRING) return Weights::open(lua_kit::check_text(L, index, path));
  const lua_kit::Options options(L, index, weights_options(), path);
  return Weights::open(options.text("path"));
}

/// unpack_gguf(path, folder): the file as config.json and model.safetensors in the folder; how many
/// tensors it has.
int unpack_gguf(lua_State* L) {
  const std::string path = lua_kit::check_text(L, 1, "unpack_gguf path");
  const std::string folder = lua_kit::check_text(L, 2, "unpack_gguf folder");
  lua_kit::push_integer(L, weights::unpack_gguf(*Weights::open(path), folder).num_tensors);
  return 1;
}

void register_weights(lua_State* L) {
  lua_kit::register_object<Weights>(L);
  core_lua::environment(L).reference.add_object<Weights>();
  core_lua::environment(L).reference.add(weights_options());
  core_lua::environment(L).model_of_weights = [](const std::string& path) {
    return weights::checkpoint_at(path);
  };
  register_tensor(L);
  lua_kit::register_module(L, "tessera.weights",
                           {{"open", lua_kit::guarded<new_weights>},
                            {"tensor", lua_kit::guarded<new_tensor>},
                            {"unpack_gguf", lua_kit::guarded<unpack_gguf>}});
}

}  // namespace weights_lua
}  // namespace tessera
