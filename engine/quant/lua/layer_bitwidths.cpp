#include "layer_bitwidths.h"

#include "core_lua.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/table.h"

namespace tessera::quant_lua {
namespace {

std::int32_t checked_bitwidth(lua_State* L, int index, const std::string& path) {
  return static_cast<std::int32_t>(lua_kit::check_integer(L, index, path, 3, 16, "bits"));
}

// Of the table at the top of the stack: a list of bitwidths.
void append_list(lua_State* L, const std::string& path, std::vector<std::int32_t>& out) {
  lua_kit::check_table(L, -1, path, "a bitwidth or a list of them");
  lua_kit::for_each_item(L, lua_gettop(L), path, [&](std::size_t, const std::string& item) {
    out.push_back(checked_bitwidth(L, -1, item));
  });
}

// A plan, or what plan:to_table() gives.
std::vector<std::int32_t> bitwidths_of_plan(lua_State* L, const std::string& path) {
  std::vector<std::int32_t> found;
  const std::string stages = lua_kit::field_path(path, "stages");
  if (lua_kit::push_field(L, -1, "stages", path)) {
    lua_kit::for_each_item(L, lua_gettop(L), stages, [&](std::size_t, const std::string& stage) {
      lua_kit::push_field(L, -1, "bitwidths", stage);
      append_list(L, lua_kit::field_path(stage, "bitwidths"), found);
    });
  }
  lua_pop(L, 1);
  if (found.empty()) {
    refuse(path, "it has no stages (of a plan with replicas, give one of the replicas)");
  }
  return found;
}

}  // namespace

std::vector<OptionSpec> layer_bitwidth_options() {
  return {{.name = "plan",
           .type = OptionType::table,
           .doc = "Plan whose bitwidths the layers get",
           .lua_type = "tessera.Plan|table"},
          {.name = "bitwidths",
           .type = OptionType::table,
           .doc = "In place of a plan: one of 3, 4, 8, 16 for all layers, or a list "
                  "of one for each",
           .unit = "bits",
           .lua_type = "integer|integer[]"}};
}

std::vector<std::int32_t> layer_bitwidths(const lua_kit::Options& options,
                                          const std::function<std::int64_t()>& num_layers) {
  lua_State* L = options.state();
  if (options.given("plan") == options.given("bitwidths")) {
    throw Error(ErrorCode::invalid_argument, options.path() + ": give either plan or bitwidths",
                options.path_of("bitwidths"));
  }
  const char* name = options.given("plan") ? "plan" : "bitwidths";
  const std::string path = options.path_of(name);
  options.push(name);
  std::vector<std::int32_t> found;
  if (options.given("plan")) {
    found = bitwidths_of_plan(L, path);
  } else if (lua_type(L, -1) == LUA_TNUMBER) {
    const std::int32_t bitwidth = checked_bitwidth(L, -1, path);
    found.assign(static_cast<std::size_t>(num_layers()), bitwidth);
  } else {
    append_list(L, path, found);
  }
  lua_pop(L, 1);
  return found;
}

std::shared_ptr<const ModelShape> model_of_plan(const lua_kit::Options& options) {
  lua_State* L = options.state();
  const lua_kit::StackGuard guard(L);
  const std::string path = options.path_of("plan");
  options.push("plan");
  if (lua_type(L, -1) != LUA_TUSERDATA) return nullptr;
  lua_kit::push_field(L, -1, "problem", path);
  const lua_kit::LuaFunction problem_of(L, -1, path + ":problem");
  lua_pop(L, 1);
  problem_of.call(1, 1);
  if (!lua_kit::push_field(L, -1, "model", path + ":problem()")) return nullptr;
  const auto* held = lua_kit::test_object<ModelShape>(L, -1);
  return held != nullptr ? *held : nullptr;
}

}  // namespace tessera::quant_lua
