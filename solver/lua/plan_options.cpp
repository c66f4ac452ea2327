// What ts.plan and `tessera plan` understand, whoever plans.

#include "solver_lua.h"
#include "tessera/lua_kit/record.h"
#include "tessera/solver/planning/planning.h"

namespace tessera::solver_lua {

const OptionTable& plan_options() {
  static const OptionTable table =
      lua_kit::option_table<solver::PlanOptions>({"ts.plan",
                                                  "Plans a problem. What is not given is searched.",
                                                  "tessera.Plan?, tessera.Error?",
                                                  {}});
  return table;
}

}  // namespace tessera::solver_lua
