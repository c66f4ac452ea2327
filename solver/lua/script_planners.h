#pragma once

#include <lua.hpp>
#include <memory>
#include <string>

#include "tessera/lua_kit/function.h"
#include "tessera/solver/planning/planning.h"

/// Planners and heuristics that are scripts, as the engine sees them: the one way by which planning
/// calls into Lua.
namespace tessera::solver_lua {

/// The names that ts.plan understands: those of the engine, and those that scripts add.
class ScriptPlanners : public solver::PlannerSet {
 public:
  /// @param named the function at this index: named(name, where) gives { name =, from_every_start
  /// =, plan = function(problem, options, news_below), improve = function(state, limit_s) }, either
  /// of them absent where there is none.
  /// @param on_incumbent the function at this index, or nil: what the script wants to be told by.
  ScriptPlanners(lua_State* L, int named, int on_incumbent);

  solver::NamedPlanner named(const std::string& name, const std::string& where) const override;

 private:
  lua_kit::LuaFunction named_;
  std::shared_ptr<const lua_kit::LuaRef> on_incumbent_;
};

/// The outcome that a script's planner, or ts.plan within one, has left as its two topmost results.
solver::PlanOutcome outcome_at(lua_State* L, int index, const std::string& who);
/// A plan, or nil and why.
int push_outcome(lua_State* L, solver::PlanOutcome outcome);

/// Pushes what the library makes a search object of.
void push_search(lua_State* L, std::shared_ptr<solver::ImprovingSearch> search);

}  // namespace tessera::solver_lua
