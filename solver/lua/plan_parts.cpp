// Plans of several parts: the best of what a problem left open, and replicas side by side.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "solver_lua.h"
#include "tessera/core/json.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

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

PlanCandidate candidate_at_top(lua_State* L, const std::string& path) {
  const lua_kit::Options options(L, lua_gettop(L), candidate_options(), path);
  const auto number = [&](const char* name) {
    return options.given(name) ? std::optional<double>(options.number(name)) : std::nullopt;
  };
  PlanCandidate candidate;
  candidate.name = options.text("name");
  candidate.status = options.text("status");
  candidate.objective = number("objective");
  candidate.latency_s = number("latency_s");
  candidate.bound = number("bound");
  if (options.given("message")) candidate.message = options.text("message");
  return candidate;
}

void set_outcome(lua_State* L, int index, Plan& plan) {
  const lua_kit::Options options(L, index, outcome_options(), "outcome");
  plan.status = options.choice("status") == "optimal" ? PlanStatus::optimal : PlanStatus::feasible;
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

// Of the plan, or the one that all replicas share.
std::optional<solver::Problem> settled_problem(const Plan& plan) {
  const Plan& one = plan.replicas.empty() ? plan : plan.replicas.front();
  solver::Problem problem = solver::problem_from_json(*one.problem, "plan.problem");
  if (!problem.serving) return std::nullopt;
  for (const Plan& replica : plan.replicas) {
    const solver::Problem other = solver::problem_from_json(*replica.problem, "plan.problem");
    if (!other.serving || other.serving->kv_bitwidth != problem.serving->kv_bitwidth)
      return std::nullopt;
  }
  return problem;
}

}  // namespace

/// combine(plan, outcome): a copy of the best plan of several problems with what is known of all.
int combine(lua_State* L) {
  auto plan = std::make_shared<Plan>(*lua_kit::check_object<Plan>(L, 1, "plan"));
  set_outcome(L, 2, *plan);
  lua_kit::push_object<Plan>(L, std::move(plan));
  return 1;
}

/// join(problem, plans, devices, outcome): replicas side by side; devices[r] are those of plans[r].
int join(lua_State* L) {
  const auto& whole = *lua_kit::check_object<LoweredProblem>(L, 1, "problem");
  std::vector<Plan> replicas;
  lua_kit::for_each_item(L, 2, "plans", [&](std::size_t r, const std::string& path) {
    replicas.push_back(*lua_kit::check_object<Plan>(L, -1, path));
    lua_kit::push_item(L, 3, r, "devices");
    lua_kit::for_each_item(
        L, lua_gettop(L), lua_kit::item_path("devices", r),
        [&](std::size_t, const std::string& device) {
          replicas.back().devices.push_back(lua_kit::check_integer(L, -1, device, 0, 1e6));
        });
  });
  if (replicas.empty()) {
    throw Error(ErrorCode::invalid_argument, "plans: give at least one", "plans");
  }
  const std::string planner = replicas.front().planner;
  auto plan =
      std::make_shared<Plan>(solver::join_replicas(whole.problem, std::move(replicas), planner));
  set_outcome(L, 4, *plan);
  lua_kit::push_object<Plan>(L, std::move(plan));
  return 1;
}

void push_candidates(lua_State* L, const Plan& plan) {
  if (plan.candidates.empty()) return lua_pushnil(L);
  lua_createtable(L, static_cast<int>(plan.candidates.size()), 0);
  for (std::size_t i = 0; i < plan.candidates.size(); ++i) {
    const PlanCandidate& candidate = plan.candidates[i];
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

void push_replicas(lua_State* L, const Plan& plan) {
  if (plan.replicas.empty()) return lua_pushnil(L);
  lua_createtable(L, static_cast<int>(plan.replicas.size()), 0);
  for (std::size_t r = 0; r < plan.replicas.size(); ++r) {
    lua_kit::push_object<Plan>(L, std::make_shared<Plan>(plan.replicas[r]));
    lua_rawseti(L, -2, static_cast<int>(r) + 1);
  }
}

void push_devices(lua_State* L, const Plan& plan) {
  if (plan.devices.empty()) return lua_pushnil(L);
  lua_kit::push_numbers(L, {plan.devices.begin(), plan.devices.end()});
}

void push_kv_bitwidth(lua_State* L, const Plan& plan) {
  const auto problem = settled_problem(plan);
  if (!problem) return lua_pushnil(L);
  lua_pushnumber(L, problem->serving->kv_bitwidth);
}

void push_kv_omega(lua_State* L, const Plan& plan) {
  const auto problem = settled_problem(plan);
  if (!problem) return lua_pushnil(L);
  lua_pushnumber(L, total_kv_omega(*problem));
}

}  // namespace tessera::solver_lua
