// Offloading plans as scripts write them and ask for them.

#include <fmt/format.h>

#include "problem_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/record_json.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/ilp/offload_lp.h"
#include "tessera/solver/offload/offload.h"
#include "tessera/solver/plan/build_plan.h"
#include "tessera/solver/plan/check_plan.h"

namespace tessera::solver_lua {
namespace {

/// The offloading of the stage on top of the stack, a table or a stage of another plan.
std::optional<solver::StageOffload> stage_offload(lua_State* L, const std::string& path) {
  if (const auto* held = lua_kit::test_object<solver::PlanStage>(L, -1)) return (*held)->offload;
  std::optional<solver::StageOffload> offload;
  if (lua_kit::push_field(L, -1, "offload", path)) {
    const std::string where = path + ".offload";
    offload =
        from_json<solver::StageOffload>(lua_kit::json_from_lua(L, lua_gettop(L), where), where);
  }
  lua_pop(L, 1);
  return offload;
}

/// What is in the way of a plan, `nil, why` as price and problem:offload answer it.
int push_violation(lua_State* L, const solver::Violation& violation) {
  return push_why(L, "infeasible", violation.message, violation.constraint);
}

}  // namespace

std::optional<OffloadArgument> offload_argument(lua_State* L, int index, const std::string& path) {
  std::optional<OffloadArgument> argument;
  if (lua_kit::push_field(L, index, "offload", path)) {
    const std::string where = path + ".offload";
    argument.emplace();
    argument->settings =
        from_json<solver::PlanOffload>(lua_kit::json_from_lua(L, lua_gettop(L), where), where);
  }
  lua_pop(L, 1);
  lua_kit::push_field(L, index, "stages", path);
  const std::string stages = lua_kit::field_path(path, "stages");
  lua_kit::for_each_item(L, lua_gettop(L), stages, [&](std::size_t, const std::string& where) {
    const auto offload = stage_offload(L, where);
    if (argument) {
      argument->shares.push_back(offload.value_or(solver::StageOffload{}));
    } else if (offload) {
      throw Error(ErrorCode::invalid_argument,
                  where +
                      ".offload: a plan that offloads says offload = { gpu_batch_size = } for "
                      "itself as well",
                  where + ".offload");
    }
  });
  lua_pop(L, 1);
  return argument;
}

int price_offload(lua_State* L, const solver::LoweredProblem& problem,
                  const OffloadArgument& offload, solver::PlanResult result,
                  const std::string& planner) {
  if (const auto obstacle = solver::find_offload_obstacle(problem.problem(), problem.instance(),
                                                          *result.candidate, offload.settings))
    return push_violation(L, *obstacle);
  solver::PipelinePlan plan =
      solver::build_offload_plan(problem, result, offload.settings, offload.shares, planner);
  if (const auto violation = solver::check_plan(plan)) return push_violation(L, *violation);
  push_plan(L, std::move(plan));
  return 1;
}

/// offload(plan): the shares of least latency for stages, micro-batch size and settings given as to
/// ts.plan's manual planner; returns the list of shares and the latency (s), or nil and why.
int offload(lua_State* L) {
  const std::string path = "problem:offload";
  const auto [lowered, candidate, notes] =
      decision_argument(L, 2, problem_argument(L, 1).first, path);
  const solver::Problem& problem = lowered.problem();
  const solver::Instance& instance = lowered.instance();
  const auto argument = offload_argument(L, 2, path);
  if (!argument) {
    refuse(path + ".offload", "missing; give { gpu_batch_size = 4 }");
  }
  if (const auto obstacle =
          solver::find_offload_obstacle(problem, instance, candidate, argument->settings))
    return push_violation(L, *obstacle);
  const auto model = solver::offload_model(problem, instance, candidate, argument->settings);
  const auto shares = solver::best_offload(model);
  if (!shares) return push_violation(L, solver::explain_no_offload(model, argument->settings));
  lua_kit::push_value(L, *shares);
  lua_pushnumber(L, solver::evaluate_offload(model, *shares).latency_s);
  return 2;
}

}  // namespace tessera::solver_lua
