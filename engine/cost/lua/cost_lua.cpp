#include "cost_lua.h"

#include "core_lua.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/module.h"

namespace tessera::cost_lua {

using lua_kit::guarded;

void register_cost(lua_State* L) {
  register_profile(L);
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
                            {"design_points", guarded<design_points>},
                            {"read_profile_data", guarded<read_profile_data>}});
}

}  // namespace tessera::cost_lua
