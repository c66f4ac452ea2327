#include "script_planners.h"

#include <fmt/format.h>

#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::solver_lua {
namespace {

using solver::NamedPlanner;
using solver::PlanOptions;
using solver::PlanOutcome;

/// What planning asks of a planner that is a script, as ts.plan takes it: what is absent, or as it
/// is by default, is nil.
void push_options(lua_State* L, const PlanOptions& options, const lua_kit::LuaRef& on_incumbent) {
  static const PlanOptions initial;
  lua_newtable(L);
  for_each_field<PlanOptions>([&]<auto Member, class Codec>(const Field<Member, Codec>& field) {
    using Value = typename Field<Member, Codec>::Value;
    if (field.get(options) == field.get(initial)) return;
    lua_kit::push_text(L, field.spec.name);
    lua_kit::ScriptValue<Value>::push(L, field.get(options));
    lua_rawset(L, -3);
  });
  lua_kit::set_number(L, "time_limit_s", options.time_limit_s.value_or(solver::kDefaultTimeLimitS));
  if (!options.on_incumbent) return;
  on_incumbent.push(L);
  lua_setfield(L, -2, "on_incumbent");
}

/// A planner that is a Lua function.
class ScriptPlanner : public solver::ProblemPlanner {
 public:
  ScriptPlanner(std::string name, lua_kit::LuaFunction plan,
                std::shared_ptr<const lua_kit::LuaRef> on_incumbent)
      : name_(std::move(name)), plan_(std::move(plan)), on_incumbent_(std::move(on_incumbent)) {}

  PlanOutcome plan(const solver::LoweredProblem& problem,
                   const PlanOptions& options) const override {
    lua_State* L = plan_.state();
    const lua_kit::StackGuard guard(L);
    luaL_checkstack(L, 8, "a planner");
    push_problem(L, {problem, {}});
    push_options(L, options, *on_incumbent_);
    if (options.news_below) {
      lua_pushnumber(L, *options.news_below);
    } else {
      lua_pushnil(L);
    }
    plan_.call(3, 2);
    return outcome_at(L, lua_gettop(L) - 1, fmt::format("planner '{}'", name_));
  }

 private:
  std::string name_;
  lua_kit::LuaFunction plan_;
  std::shared_ptr<const lua_kit::LuaRef> on_incumbent_;
};

/// A heuristic that is a Lua function.
class ScriptImprover : public solver::PlanImprover {
 public:
  explicit ScriptImprover(lua_kit::LuaFunction improve) : improve_(std::move(improve)) {}

  std::optional<std::string> improve(const std::shared_ptr<solver::ImprovingSearch>& search,
                                     double limit_s) const override {
    lua_State* L = improve_.state();
    const lua_kit::StackGuard guard(L);
    push_search(L, search);
    lua_pushnumber(L, limit_s);
    improve_.call(2, 1);
    if (lua_isnil(L, -1)) return std::nullopt;
    return lua_kit::check_text(L, -1, "note of a heuristic");
  }

 private:
  lua_kit::LuaFunction improve_;
};

}  // namespace

ScriptPlanners::ScriptPlanners(lua_State* L, int named, int on_incumbent)
    : named_(L, named, "ts.plan.planner"),
      on_incumbent_(std::make_shared<lua_kit::LuaRef>(L, on_incumbent)) {}

NamedPlanner ScriptPlanners::named(const std::string& name, const std::string& where) const {
  if (auto engine = solver::find_engine_planner(name)) return *engine;
  lua_State* L = named_.state();
  const lua_kit::StackGuard guard(L);
  lua_kit::push_text(L, name);
  lua_kit::push_text(L, where);
  named_.call(2, 1);
  const int entry = lua_gettop(L);
  NamedPlanner planner;
  planner.name = name;
  if (lua_kit::push_field(L, entry, "plan", where)) {
    planner.planner =
        std::make_shared<ScriptPlanner>(name, lua_kit::LuaFunction(L, -1, where), on_incumbent_);
  }
  if (lua_kit::push_field(L, entry, "improve", where))
    planner.improver = std::make_shared<ScriptImprover>(lua_kit::LuaFunction(L, -1, where));
  lua_kit::push_field(L, entry, "from_every_start", where);
  planner.from_every_start = lua_toboolean(L, -1) != 0;
  return planner;
}

PlanOutcome outcome_at(lua_State* L, int index, const std::string& who) {
  const lua_kit::StackGuard guard(L);
  if (const auto* held = lua_kit::test_object<solver::Plan>(L, index)) return **held;
  const auto text = [&](const char* name) {
    lua_kit::push_field(L, index + 1, name, who);
    return std::string(lua_kit::text_or_empty(L, -1));
  };
  solver::NoPlan why{text("code"), text("message"), text("constraint"), std::nullopt};
  if (lua_kit::push_field(L, index + 1, "bound", who))
    why.bound = lua_kit::check_number(L, -1, who + " bound", -1e300, 1e300, "s");
  return why;
}

int push_outcome(lua_State* L, PlanOutcome outcome) {
  if (auto* plan = std::get_if<solver::Plan>(&outcome)) {
    push_plan(L, std::move(*plan));
    return 1;
  }
  const solver::NoPlan& why = std::get<solver::NoPlan>(outcome);
  return push_why(L, why.code, why.message, why.constraint, why.bound);
}

}  // namespace tessera::solver_lua
