#include "bindings.h"

#include "cost_lua.h"
#include "host.h"
#include "http_lua.h"
#include "indicator_lua.h"
#include "lm_lua.h"
#include "measure_lua.h"
#include "quant_lua.h"
#include "results_lua.h"
#include "run_lua.h"
#include "serving_lua.h"
#include "solver_lua.h"
#include "verbs.h"
#include "weights_lua.h"
#include "workers_lua.h"

namespace tessera::app {

void open_bindings(lua_State* L, core_lua::Environment& environment, workers::Channel* channel) {
  core_lua::set_environment(L, &environment);
  core_lua::register_core(L);
  cost_lua::register_cost(L);
  indicator_lua::register_indicator(L);
  weights_lua::register_weights(L);
  quant_lua::register_quant(L);
  lm_lua::register_lm(L);
  profile_lua::register_profile(L);
  run_lua::register_run(L);
  http_lua::register_http(L);
  serving_lua::register_serving(L);
  solver_lua::register_solver(L);
  results_lua::register_results(L);
  workers_lua::register_workers(L, executable_path(), channel);
  environment.reference.add(run_options());
  for (const LuaVerb& verb : lua_verbs()) environment.reference.add(verb.options);
}

}  // namespace tessera::app
