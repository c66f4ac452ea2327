#include "cost_lua.h"

#include "core_lua.h"
#include "tessera/core/error.h"
#include "tessera/cost/auto_kernel_set.h"
#include "tessera/cost/recalibration.h"
#include "tessera/cost/tensor_parallel.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::cost_lua {

using lua_kit::guarded;

namespace {

/// kernel(kernel_set, device, bitwidth): the kernel that a set takes there, or nil and why it has
/// none, in words.
int kernel(lua_State* L) {
  const cost::KernelSet set = cost::find_kernel_set(lua_kit::check_text(L, 1, "kernel_set"),
                                                    core_lua::environment(L).folders);
  const auto device = core_lua::device_argument(L, 2, "device");
  const auto bitwidth = static_cast<std::int32_t>(lua_kit::check_integer(L, 3, "bitwidth", 1, 16));
  if (const cost::KernelRule* rule = set.find(*device, bitwidth)) {
    lua_kit::push_text(L, rule->method);
    return 1;
  }
  lua_pushnil(L);
  lua_kit::push_text(L, cost::why_no_kernel(set, *device, bitwidth));
  return 2;
}

/// fit_ratios(ratios): { factor, num_runs, error, left_out_error } of ratios of measured to
/// predicted, as kernel sets are corrected by them; nil of none.
int fit_ratios(lua_State* L) {
  const std::vector<double> ratios = lua_kit::any_numbers(L, 1, "ratios");
  for (const double ratio : ratios) {
    if (!(ratio > 0)) refuse("ratios", "{} is no ratio above 0", ratio);
  }
  if (ratios.empty()) return 0;
  const cost::RatioFit fit = cost::fit_ratios(ratios);
  lua_createtable(L, 0, 4);
  lua_kit::set_number(L, "factor", fit.factor);
  lua_kit::set_number(L, "num_runs", static_cast<double>(ratios.size()));
  if (fit.spread) lua_kit::set_number(L, "error", *fit.spread);
  if (fit.left_out_error) lua_kit::set_number(L, "left_out_error", *fit.left_out_error);
  return 1;
}

/// why_not_sharded(model, degree): why its layers cannot be split so many ways, in words, or nil.
int why_not_sharded(lua_State* L) {
  const auto model = core_lua::model_argument(L, 1, "model");
  const auto why = cost::why_not_sharded(*model, lua_kit::check_integer(L, 2, "degree", 1, 1024));
  if (why) {
    lua_kit::push_text(L, *why);
  } else {
    lua_pushnil(L);
  }
  return 1;
}

}  // namespace

void register_cost(lua_State* L) {
  register_profile(L);
  register_lone_run(L);
  lua_kit::Reference& reference = core_lua::environment(L).reference;
  reference.add(fit_options());
  reference.add(cross_validate_options());
  reference.add(calibrate_options());
  reference.add(read_options());
  reference.add(lua_kit::FunctionCard{"ts.read_profile_data",
                                      std::string(read_options().doc),
                                      {{"path", "string", "CSV file"}},
                                      "table[]"});
  lua_kit::register_module(L, "tessera.cost",
                           {{"profile", guarded<new_profile>},
                            {"fit_profile", guarded<fit_profile>},
                            {"cross_validate", guarded<cross_validate>},
                            {"calibrate", guarded<calibrate>},
                            {"fit_ratios", guarded<fit_ratios>},
                            {"kernel", guarded<kernel>},
                            {"design_points", guarded<design_points>},
                            {"pricing", guarded<pricing>},
                            {"lone_run", guarded<lone_run>},
                            {"scheme_quality", guarded<scheme_quality>},
                            {"read_profile_data", guarded<read_profile_data>},
                            {"why_not_sharded", guarded<why_not_sharded>}});
}

}  // namespace tessera::cost_lua
