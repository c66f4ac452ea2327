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

}  // namespace tessera::solver_lua
