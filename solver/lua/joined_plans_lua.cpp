// Plans of several parts: the best of what a problem left open, and replicas side by side.

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

const OptionTable& outcome_options() {
  static const OptionTable table{"outcome of a search",
                                 "What is known of a plan that was put together.",
                                 "",
                                 {{.name = "status",
                                   .type = OptionType::choice,
                                   .doc = "Whether it is proven",
                                   .choices = {"optimal", "feasible"},
                                   .required = true},
                                  {.name = "bound", .doc = "No plan of the search is below it"},
                                  {.name = "solve_s", .doc = "All of the search", .required = true},
                                  {.name = "candidates",
                                   .type = OptionType::table,
                                   .doc = "What came of each open choice",
                                   .lua_type = "table[]"}}};
  return table;
}

const OptionTable& candidate_options() {
  static const OptionTable table{
      "candidate",
      "One open choice.",
      "",
      {{.name = "name", .type = OptionType::text, .doc = "Of the choice", .required = true},
       {.name = "status", .type = OptionType::text, .doc = "What came of it", .required = true},
       {.name = "objective", .doc = "Of its plan"},
       {.name = "latency_s", .doc = "Of its plan"},
       {.name = "bound", .doc = "No plan of it is below"},
       {.name = "message", .type = OptionType::text, .doc = "Why there is no plan"}}};
  return table;
}

solver::PlanCandidate candidate_at_top(lua_State* L, const std::string& path) {
  const lua_kit::Options options(L, lua_gettop(L), candidate_options(), path);
  const auto number = [&](const char* name) {
    return options.given(name) ? std::optional<double>(options.number(name)) : std::nullopt;
  };
  solver::PlanCandidate candidate;
  candidate.name = options.text("name");
  candidate.status = options.text("status");
  candidate.objective = number("objective");
  candidate.latency_s = number("latency_s");
  candidate.bound = number("bound");
  if (options.given("message")) candidate.message = options.text("message");
  return candidate;
}

void set_outcome(lua_State* L, int index, solver::PlanSummary& plan) {
  const lua_kit::Options options(L, index, outcome_options(), "outcome");
  plan.status = options.choice("status") == "optimal" ? solver::PlanStatus::optimal
                                                      : solver::PlanStatus::feasible;
  plan.solve_s = options.number("solve_s");
  plan.bound.reset();
  plan.gap.reset();
  if (options.given("bound")) {
    plan.bound = std::min(options.number("bound"), plan.objective);
    plan.gap = (plan.objective - *plan.bound) / std::max(std::fabs(plan.objective), 1e-12);
  }
  if (options.push("candidates")) {
    lua_kit::for_each_item(L, lua_gettop(L), options.path_of("candidates"),
                           [&](std::size_t, const std::string& path) {
                             plan.candidates.push_back(candidate_at_top(L, path));
                           });
  }
  lua_pop(L, 1);
}

void set_number(lua_State* L, const char* name, const std::optional<double>& value) {
  if (!value) return;
  lua_pushnumber(L, *value);
  lua_setfield(L, -2, name);
}

void set_text(lua_State* L, const char* name, const std::string& text) {
  lua_kit::push_text(L, text);
  lua_setfield(L, -2, name);
}

// The problem that says how the KV cache is kept: the plan's, or the first replica's where all keep
// it alike; null for an instance, and where replicas differ.
const solver::Problem* cache_problem(const solver::Plan& plan) {
  if (const auto* pipeline = std::get_if<solver::PipelinePlan>(&plan)) {
    const solver::Problem& problem = pipeline->problem.problem();
    return problem.serving() != nullptr ? &problem : nullptr;
  }
  const auto& replicas = std::get<solver::ReplicatedPlan>(plan).replicas;
  const solver::Problem& first = replicas.front().problem.problem();
  for (const solver::PipelinePlan& replica : replicas) {
    const solver::ServingProblem* serving = replica.problem.serving();
    if (first.serving() == nullptr || serving == nullptr ||
        serving->kv_bitwidth != first.serving()->kv_bitwidth) {
      return nullptr;
    }
  }
  return &first;
}

}  // namespace

/// combine(plan, outcome): a copy of the best plan of several problems with what is known of all.
int combine(lua_State* L) {
  solver::Plan plan = *lua_kit::check_object<solver::Plan>(L, 1, "plan");
  set_outcome(L, 2, summary_of(plan));
  push_plan(L, std::move(plan));
  return 1;
}

/// join(problem, plans, devices, outcome): replicas side by side; devices[r] are those of plans[r].
int join(lua_State* L) {
  const auto whole = lua_kit::check_object<solver::OpenProblem>(L, 1, "problem");
  std::vector<solver::PipelinePlan> replicas;
  lua_kit::for_each_item(L, 2, "plans", [&](std::size_t r, const std::string& path) {
    replicas.push_back(pipeline_of(*lua_kit::check_object<solver::Plan>(L, -1, path), path));
    auto& devices = replicas.back().devices.emplace();
    lua_kit::push_item(L, 3, r, "devices");
    lua_kit::for_each_item(L, lua_gettop(L), lua_kit::item_path("devices", r),
                           [&](std::size_t, const std::string& device) {
                             devices.push_back(lua_kit::check_integer(L, -1, device, 0, 1e6));
                           });
  });
  if (replicas.empty()) {
    throw Error(ErrorCode::invalid_argument, "plans: give at least one", "plans");
  }
  const std::string planner = replicas.front().planner;
  solver::ReplicatedPlan plan =
      solver::join_replicas(whole->first.problem(), std::move(replicas), planner);
  set_outcome(L, 4, plan);
  push_plan(L, std::move(plan));
  return 1;
}

void push_candidates(lua_State* L, const solver::Plan& plan) {
  const std::vector<solver::PlanCandidate>& candidates = summary_of(plan).candidates;
  if (candidates.empty()) return lua_pushnil(L);
  lua_createtable(L, static_cast<int>(candidates.size()), 0);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const solver::PlanCandidate& candidate = candidates[i];
    lua_createtable(L, 0, 6);
    set_text(L, "name", candidate.name);
    set_text(L, "status", candidate.status);
    set_number(L, "objective", candidate.objective);
    set_number(L, "latency_s", candidate.latency_s);
    set_number(L, "bound", candidate.bound);
    if (!candidate.message.empty()) set_text(L, "message", candidate.message);
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
  lua_pushnumber(L, problem->serving()->kv_bitwidth);
}

void push_kv_omega(lua_State* L, const solver::Plan& plan) {
  const solver::Problem* problem = cache_problem(plan);
  if (problem == nullptr) return lua_pushnil(L);
  lua_pushnumber(L, total_kv_omega(*problem));
}

}  // namespace tessera::solver_lua
