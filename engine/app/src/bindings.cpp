#include "bindings.h"

#include "indicator_lua.h"
#include "results_lua.h"
#include "solver_lua.h"
#include "verbs.h"

namespace tessera::app {

void open_bindings(lua_State* L, core_lua::Environment& environment) {
  core_lua::set_environment(L, &environment);
  core_lua::register_core(L);
  indicator_lua::register_indicator(L);
  solver_lua::register_solver(L);
  results_lua::register_results(L);
  environment.reference.add(run_options());
  for (const LuaVerb& verb : lua_verbs()) environment.reference.add(verb.options);
}

}  // namespace tessera::app
