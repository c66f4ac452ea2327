#include "serving_lua.h"

#include "engine_lua.h"
#include "scheduler_lua.h"
#include "served_lua.h"
#include "speculation_lua.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/module.h"

namespace tessera::serving_lua {

void register_serving(lua_State* L) {
  register_engine(L);
  register_traffic(L);
  register_served(L);
  register_speculation(L);
  lua_kit::register_module(L, "tessera.serving",
                           {{"engine", lua_kit::guarded<new_engine>},
                            {"traffic", lua_kit::guarded<new_traffic>},
                            {"replay", lua_kit::guarded<replay>},
                            {"views", lua_kit::guarded<views>},
                            {"schedulers", lua_kit::guarded<scheduler_list>},
                            {"scheduler_fields", lua_kit::guarded<scheduler_fields>},
                            {"scheduler_error", lua_kit::guarded<scheduler_error>},
                            {"routers", lua_kit::guarded<router_list>}});
}

}  // namespace tessera::serving_lua
