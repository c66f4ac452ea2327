// What came of open choices, and replicas side by side.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/plan/build_plan.h"
#include "tessera/solver/plan/check_plan.h"

namespace tessera::solver_lua {
namespace {

// The problem that says how the KV cache is kept: the plan's, or the first replica's where all keep
// it alike; null for an instance, and where replicas differ.
const solver::Problem* cache_problem(const solver::Plan& plan) {
  if (const auto* pipeline = std::get_if<solver::PipelinePlan>(&plan)) {
    const solver::Problem& problem = pipeline->problem.problem();
    return problem.batch() != nullptr ? &problem : nullptr;
  }
  const auto& replicas = std::get<solver::ReplicatedPlan>(plan).replicas;
  const solver::Problem& first = replicas.front().problem.problem();
  for (const solver::PipelinePlan& replica : replicas) {
    const solver::BatchProblem* batch = replica.problem.batch();
    if (first.batch() == nullptr || batch == nullptr ||
        batch->kv_bitwidth != first.batch()->kv_bitwidth) {
      return nullptr;
    }
  }
  return &first;
}

}  // namespace

void push_candidates(lua_State* L, const solver::Plan& plan) {
  const std::vector<solver::PlanCandidate>& candidates = summary_of(plan).candidates;
  if (candidates.empty()) return lua_pushnil(L);
  lua_createtable(L, static_cast<int>(candidates.size()), 0);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const solver::PlanCandidate& candidate = candidates[i];
    lua_createtable(L, 0, 6);
    lua_kit::set_text(L, "name", candidate.name);
    lua_kit::set_text(L, "status", candidate.status);
    lua_kit::set_optional(L, "objective", candidate.objective);
    lua_kit::set_optional(L, "latency_s", candidate.latency_s);
    lua_kit::set_optional(L, "bound", candidate.bound);
    if (!candidate.message.empty()) lua_kit::set_text(L, "message", candidate.message);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
}

void push_replicas(lua_State* L, const solver::Plan& plan) {
  const auto* whole = std::get_if<solver::ReplicatedPlan>(&plan);
  if (whole == nullptr) return lua_pushnil(L);
  lua_createtable(L, static_cast<int>(whole->replicas.size()), 0);
  for (std::size_t r = 0; r < whole->replicas.size(); ++r) {
    push_plan(L, whole->replicas[r]);
    lua_rawseti(L, -2, static_cast<int>(r) + 1);
  }
}

void push_kv_bitwidth(lua_State* L, const solver::Plan& plan) {
  const solver::Problem* problem = cache_problem(plan);
  if (problem == nullptr) return lua_pushnil(L);
  lua_pushnumber(L, problem->batch()->kv_bitwidth);
}

void push_kv_omega(lua_State* L, const solver::Plan& plan) {
  const solver::Problem* problem = cache_problem(plan);
  if (problem == nullptr) return lua_pushnil(L);
  lua_pushnumber(L, total_kv_omega(*problem));
}

/// join_plans(problem, { { plan, { device, ... } }, ... }, planner): plans of parts of the
/// problem's cluster (on_devices), and which devices those are (0-based), side by side. Checked; or
/// nil, why.
int join_plans(lua_State* L) {
  const solver::Problem& problem =
      lua_kit::check_object<solver::OpenProblem>(L, 1, "problem")->first.problem();
  if (problem.batch() == nullptr) refuse("join_plans", "an instance has no cluster");
  std::vector<solver::PipelinePlan> replicas;
  lua_kit::for_each_item(L, 2, "plans", [&](std::size_t, const std::string& path) {
    const int item = lua_gettop(L);
    lua_kit::push_item(L, item, 1, path);
    const auto plan = lua_kit::check_object<solver::Plan>(L, -1, path.c_str());
    solver::PipelinePlan replica = pipeline_of(*plan, path);
    lua_kit::push_item(L, item, 2, path);
    replica.devices.emplace();
    const double last = static_cast<double>(problem.batch()->cluster.devices.size()) - 1;
    lua_kit::for_each_item(L, item + 2, path, [&](std::size_t, const std::string& where) {
      replica.devices->push_back(lua_kit::check_integer(L, -1, where, 0, last));
    });
    replicas.push_back(std::move(replica));
    lua_settop(L, item);
  });
  if (replicas.empty()) refuse("join_plans", "give a plan");
  solver::Plan joined =
      solver::join_replicas(problem, std::move(replicas), lua_kit::check_utf8(L, 3, "planner"));
  if (const auto violation = solver::check_plan(joined)) {
    return push_why(L, "infeasible", violation->message, violation->constraint);
  }
  push_plan(L, std::move(joined));
  return 1;
}

}  // namespace tessera::solver_lua
