#include "indicator_lua.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core_lua.h"
#include "from_weights_lua.h"
#include "tessera/core/error.h"
#include "tessera/indicator/save.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera {
namespace {

std::int32_t bitwidth_at(lua_State* L, int index, const std::string& method) {
  return static_cast<std::int32_t>(
      lua_kit::check_integer(L, index, method + " bitwidth", 1, 16, "bits"));
}

// Arguments 2 and 3 of indicator:omega and its like.
std::pair<std::size_t, std::int32_t> cell_of(lua_State* L, const Indicator& indicator,
                                             const std::string& method) {
  const auto layer = lua_kit::check_integer(L, 2, method + " layer_index", 0,
                                            static_cast<double>(indicator.num_layers) - 1);
  return {static_cast<std::size_t>(layer), bitwidth_at(L, 3, method)};
}

int omega(lua_State* L) {
  const auto& found = *lua_kit::check_object<Indicator>(L, 1, "indicator");
  const auto [layer, bit] = cell_of(L, found, "indicator:omega");
  lua_pushnumber(L, found.at(layer, bit));
  return 1;
}

int omegas(lua_State* L) {
  const auto& found = *lua_kit::check_object<Indicator>(L, 1, "indicator");
  const std::int32_t bit = bitwidth_at(L, 2, "indicator:omegas");
  std::vector<double> values;
  for (std::size_t layer = 0; layer < found.num_layers; ++layer) {
    values.push_back(found.at(layer, bit));
  }
  lua_kit::push_numbers(L, values);
  return 1;
}

int standard_error(lua_State* L) {
  const auto& found = *lua_kit::check_object<Indicator>(L, 1, "indicator");
  const auto [layer, bit] = cell_of(L, found, "indicator:standard_error");
  const std::optional<double> error = found.standard_error_at(layer, bit);
  if (!error) return 0;
  lua_pushnumber(L, *error);
  return 1;
}

int save(lua_State* L) {
  const auto& found = *lua_kit::check_object<Indicator>(L, 1, "indicator");
  indicator::save_indicator(found, lua_kit::check_text(L, 2, "indicator:save path"));
  return 0;
}

/// check_replaceable(path): before what takes long to make is written there.
int check_replaceable(lua_State* L) {
  indicator::check_replaceable(lua_kit::check_text(L, 1, "tessera.indicator.path"));
  return 0;
}

// What runs the model knows nothing of this module: it is called as a script would.
int run_model(lua_State* L) {
  lua_settop(L, 1);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.lm");
  if (lua_kit::protected_call(L, 1, 1) != 0) lua_kit::throw_script_error(L);
  lua_kit::push_field(L, -1, "layer_indicator", "tessera.lm");
  const lua_kit::LuaFunction layer_indicator(L, -1, "tessera.lm.layer_indicator");
  lua_settop(L, 1);
  layer_indicator.call(1, 1);
  return 1;
}

Indicator make(const lua_kit::Options& options) {
  const std::string kind = options.choice("kind");
  for (const char* name : {"file", "samples", "tokens", "method", "activation_bitwidth", "out"}) {
    if (!options.given(name)) continue;
    refuse(options.path_of(name), "kind '{}' runs no text; kinds loss and divergence do", kind);
  }
  if (indicator_lua::is_made_from_weights(kind)) return indicator_lua::make_from_weights(options);
  options.refuse_others({"kind", "model", "bitwidths", "variant", "seed"},
                        "kind '" + kind + "' looks at no weights");
  const auto layers = static_cast<std::size_t>(indicator_lua::num_layers_of(options));
  const std::vector<std::int32_t> bitwidths = indicator_lua::bitwidths_of(options);
  if (kind == "constant") return indicator::make_constant(layers, bitwidths);
  return indicator::make_random(layers, bitwidths, options.choice("variant"),
                                static_cast<std::uint64_t>(options.integer("seed")));
}

int new_indicator(lua_State* L) {
  if (lua_type(L, 1) == LUA_TSTRING) {
    const std::string path = lua_kit::check_text(L, 1, "ts.indicator");
    lua_kit::push_object<Indicator>(
        L, std::make_shared<Indicator>(indicator::read_indicator(path, "")));
    return 1;
  }
  const lua_kit::Options options(L, 1, indicator_lua::indicator_options(), "ts.indicator");
  const std::string kind = options.choice("kind");
  if (kind == "loss" || kind == "divergence") return run_model(L);
  lua_kit::push_object<Indicator>(L, std::make_shared<Indicator>(make(options)));
  return 1;
}

/// omega[layer][bitwidth]: every layer a table from bitwidth to a number >= 0.
Indicator from_table(lua_State* L, int index, const std::string& path,
                     const std::vector<std::int32_t>& bitwidths) {
  Indicator result;
  result.kind = "imported";
  result.source = "table";
  result.bitwidths = bitwidths;
  lua_kit::for_each_item(L, index, path, [&](std::size_t layer, const std::string& row) {
    lua_kit::check_table(L, -1, row, "a table from bitwidth to omega");
    for (const std::int32_t bit : bitwidths) {
      const auto item = static_cast<std::size_t>(bit);
      lua_kit::push_item(L, -1, item, row);
      result.omega.push_back(lua_kit::check_number(L, -1, lua_kit::item_path(row, item), 0, 1e300));
      lua_pop(L, 1);
    }
    result.num_layers = layer;
  });
  return result;
}

}  // namespace

template <>
const lua_kit::ObjectType<Indicator>& lua_kit::object_type<Indicator>() {
  static const ObjectType<Indicator> type{
      .name = "tessera.Indicator",
      .doc = "Quality lost per layer and bitwidth.",
      .fields = fields_of<Indicator>(),
      .methods = {{"omega", guarded<omega>, "(layer_index: integer, bitwidth: integer): number",
                   "Raw omega of a layer (0-based)"},
                  {"omegas", guarded<omegas>, "(bitwidth: integer): number[]",
                   "Raw omega of every layer, the first layer first"},
                  {"standard_error", guarded<standard_error>,
                   "(layer_index: integer, bitwidth: integer): number?",
                   "Of omega where it is the mean of a sample, such as a loss over pieces of text"},
                  {"save", guarded<save>, "(path: string)",
                   "Writes it as JSON; replaces an indicator or an empty file"}},
      .summary = [](const Indicator& i) {
        return fmt::format("indicator: {} over {} layers, {}", i.kind, i.num_layers,
                           name_of(i.provenance));
      }};
  return type;
}

namespace indicator_lua {

std::shared_ptr<const Indicator> indicator_argument(lua_State* L, int index,
                                                    const std::string& path,
                                                    const std::string& model,
                                                    std::size_t num_layers,
                                                    const std::vector<std::int32_t>& bitwidths) {
  if (lua_isnoneornil(L, index)) {
    std::vector<std::int32_t> with_reference = bitwidths;  // omega is normalised at 4 bits
    with_reference.push_back(4);
    std::sort(with_reference.begin(), with_reference.end());
    with_reference.erase(std::unique(with_reference.begin(), with_reference.end()),
                         with_reference.end());
    return std::make_shared<Indicator>(indicator::make_constant(num_layers, with_reference));
  }
  if (const auto* held = lua_kit::test_object<Indicator>(L, index)) return *held;
  if (lua_type(L, index) == LUA_TSTRING) {
    return std::make_shared<Indicator>(
        indicator::read_indicator(lua_kit::check_text(L, index, path), model));
  }
  if (lua_istable(L, index))
    return std::make_shared<Indicator>(
        from_table(L, index < 0 ? lua_gettop(L) + 1 + index : index, path, bitwidths));
  refuse(path, "{} where an indicator, a file or a table omega[layer][bitwidth] belongs",
         lua_kit::describe_value(L, index));
}

void register_indicator(lua_State* L) {
  lua_kit::register_object<Indicator>(L);
  core_lua::environment(L).reference.add_object<Indicator>();
  core_lua::environment(L).reference.add(indicator_options());
  lua_kit::register_module(L, "tessera.indicator",
                           {{"new", lua_kit::guarded<new_indicator>},
                            {"check_replaceable", lua_kit::guarded<check_replaceable>}});
}

}  // namespace indicator_lua
}  // namespace tessera
