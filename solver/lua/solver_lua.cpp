#include "solver_lua.h"

#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/module.h"

namespace tessera::solver_lua {

void register_solver(lua_State* L) {
  register_problem(L);
  register_plan(L);
  register_stage(L);
  register_run(L);
  lua_kit::register_module(L, "tessera.solver",
                           {{"problem", lua_kit::guarded<new_problem>},
                            {"solve", lua_kit::guarded<solve>},
                            {"planner_cards", lua_kit::guarded<planner_cards>},
                            {"price", lua_kit::guarded<price>},
                            {"check_options", lua_kit::guarded<check_options>},
                            {"load_plan", lua_kit::guarded<load_plan>},
                            {"check", lua_kit::guarded<check_plan>},
                            {"simulate", lua_kit::guarded<simulate>}});
}

}  // namespace tessera::solver_lua
