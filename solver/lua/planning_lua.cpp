// ts.plan.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "problem_lua.h"
#include "script_planners.h"
#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/plan/build_plan.h"
#include "tessera/solver/plan/plan_text.h"

namespace tessera::solver_lua {
namespace {

[[noreturn]] void refuse_option(const std::string& path, const std::string& problem) {
  refuse(path, problem);
}

/// One name, or a list of them.
std::vector<std::string> names_at(lua_State* L, int index, const std::string& path) {
  if (lua_type(L, index) == LUA_TSTRING) return {lua_kit::check_text(L, index, path)};
  std::vector<std::string> names;
  lua_kit::for_each_item(L, index, path, [&](std::size_t, const std::string& item) {
    names.push_back(lua_kit::check_text(L, -1, item));
  });
  return names;
}

/// 2, { 1, 2 }, "all", and "1,2" of a command line.
solver::ReplicaNumbers replicas_at(lua_State* L, int index, const std::string& path) {
  const char* wanted = "give a number, a list of them, or \"all\"";
  solver::ReplicaNumbers replicas;
  const auto add = [&](double number, const std::string& shown) {
    if (!(number >= 1) || std::floor(number) != number || number > 1e15) {
      refuse_option(
          path, fmt::format("{} is not a number of replicas; give whole numbers from 1", shown));
    }
    replicas.numbers.push_back(static_cast<std::int64_t>(number));
  };
  if (lua_type(L, index) == LUA_TSTRING) {
    const std::string text = lua_kit::check_text(L, index, path);
    replicas.all = text == "all";
    for (std::size_t start = 0; !replicas.all && start <= text.size();) {
      const std::size_t comma = std::min(text.find(',', start), text.size());
      const std::string item = text.substr(start, comma - start);
      char* end = nullptr;
      const double number = std::strtod(item.c_str(), &end);
      add(item.empty() || *end != '\0' ? -1 : number, item);
      start = comma + 1;
    }
    return replicas;
  }
  if (lua_type(L, index) == LUA_TNUMBER) {
    add(lua_kit::any_number(L, index, path), lua_kit::text_of_scalar(L, index));
    return replicas;
  }
  lua_kit::list_length(L, index, path, wanted);
  lua_kit::for_each_item(L, index, path, [&](std::size_t, const std::string&) {
    const bool is_number = lua_type(L, -1) == LUA_TNUMBER;
    add(is_number ? lua_kit::any_number(L, -1, path) : -1, lua_kit::describe_value(L, -1));
  });
  if (replicas.numbers.empty()) refuse_option(path, wanted);
  return replicas;
}

/// Tells the script, and keeps the plan for Ctrl-C.
void listen(lua_State* L, const lua_kit::Options& options, solver::PlanOptions& plan) {
  plan.watch = [](const solver::LoweredProblem& problem, const solver::Incumbent& incumbent,
                  const std::string& planner) {
    lua_kit::interrupt::set_incumbent_text(incumbent_text(problem, incumbent, planner));
  };
  if (!options.push("on_incumbent")) return lua_pop(L, 1);
  const auto callback =
      std::make_shared<lua_kit::LuaFunction>(L, -1, options.path_of("on_incumbent"));
  lua_pop(L, 1);
  plan.on_incumbent = [callback](const solver::IncumbentNews& news) {
    lua_State* state = callback->state();
    lua_createtable(state, 0, 3);
    lua_kit::set_number(state, "objective", news.objective);
    if (news.bound) {
      const double size = std::max(std::abs(news.objective), 1e-12);
      lua_kit::set_number(state, "bound", *news.bound);
      lua_kit::set_number(state, "gap", (news.objective - *news.bound) / size);
    }
    callback->call(1, 0);
  };
}

solver::PlanOptions plan_options_at(lua_State* L, const lua_kit::Options& options) {
  solver::PlanOptions plan;
  lua_kit::read_options(options, plan);
  if (options.given("planner")) options.read("planner", names_at, plan.planners);
  if (options.given("replicas")) options.read("replicas", replicas_at, plan.replicas);
  options.read("start", lua_kit::check_object<solver::Plan>, plan.start);
  plan.stop = lua_kit::interrupt::flag();
  plan.left_s = [] { return lua_kit::interrupt::left_s(); };
  listen(L, options, plan);
  return plan;
}

}  // namespace

/// plan(problem, options, named): a plan, or nil and why.
int plan(lua_State* L) {
  const solver::OpenProblem problem = problem_argument(L, 1);
  const lua_kit::Options options(L, 2, plan_options(), "ts.plan");
  options.push("on_incumbent");
  const ScriptPlanners planners(L, 3, lua_gettop(L));
  if (options.given("stages")) {
    refuse_option(options.path_of("stages"), "only planner = \"manual\" takes stages");
  }
  solver::PlanOutcome outcome = solver::plan(problem, plan_options_at(L, options), planners);
  const auto* why = std::get_if<solver::NoPlan>(&outcome);
  if (why == nullptr || why->code != "interrupted") lua_kit::interrupt::set_incumbent_text("");
  return push_outcome(L, std::move(outcome));
}

/// resolve_floor(problem, named): the problem with a number where its floor names a baseline, and a
/// note, or nil.
int resolve_floor(lua_State* L) {
  const solver::OpenProblem problem = problem_argument(L, 1);
  lua_settop(L, 3);  // nobody listens
  const ScriptPlanners planners(L, 2, 3);
  solver::PlanOptions options;
  options.stop = lua_kit::interrupt::flag();
  options.left_s = [] { return lua_kit::interrupt::left_s(); };
  solver::ResolvedFloor floor = solver::resolve_floor(problem, options, planners);
  push_problem(L, std::move(floor.problem));
  if (!floor.note) return 1;
  lua_kit::push_text(L, *floor.note);
  return 2;
}

}  // namespace tessera::solver_lua
