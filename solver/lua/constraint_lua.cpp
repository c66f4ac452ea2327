// Side constraints as scripts write them.

#include "core_lua.h"
#include "problem_lua.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"

namespace tessera::solver_lua {

const OptionTable& constraint_term_options() {
  static const OptionTable table = lua_kit::option_table<solver::ConstraintTerm>(
      {"problem:add_constraint.term", "Counts the layers that match everything given.", "", {}});
  return table;
}

const OptionTable& constraint_options() {
  static const OptionTable table = lua_kit::option_table<solver::Constraint>(
      {"problem:add_constraint",
       "A copy of the problem with one more linear row that every plan must keep: sum of terms, "
       "sense, rhs. The ILP planner keeps it, the checker checks it in every plan.",
       "tessera.Problem",
       {}});
  return table;
}

namespace {

solver::Constraint constraint_argument(lua_State* L, int index, const std::string& path) {
  const lua_kit::Options options(L, index, constraint_options(), path);
  solver::Constraint constraint;
  lua_kit::read_options(options, constraint);
  options.push("terms");
  const std::string terms = options.path_of("terms");
  lua_kit::for_each_item(L, lua_gettop(L), terms, [&](std::size_t, const std::string& item) {
    const lua_kit::Options given(L, lua_gettop(L), constraint_term_options(), item);
    solver::ConstraintTerm& term = constraint.terms.emplace_back();
    lua_kit::read_options(given, term);
    check_record(term, given.field_path());
  });
  lua_pop(L, 1);
  check_record(constraint, options.field_path());
  return constraint;
}

}  // namespace

std::vector<solver::Constraint> constraints_argument(lua_State* L, int index,
                                                     const std::string& path) {
  std::vector<solver::Constraint> constraints;
  lua_kit::check_table(L, index, path, "a list of side constraints");
  lua_kit::for_each_item(L, index, path, [&](std::size_t, const std::string& item) {
    constraints.push_back(constraint_argument(L, lua_gettop(L), item));
  });
  solver::check_names_differ(constraints, path);
  return constraints;
}

int add_constraint(lua_State* L) {
  const solver::OpenProblem& p = problem_argument(L, 1);
  const std::string path = "problem:add_constraint";
  solver::Constraint added = constraint_argument(L, 2, path);
  resolve(added, p.first.instance(), path);
  solver::Problem changed = p.first.problem();
  for (const solver::Constraint& other : changed.constraints) {
    if (other.name == added.name) {
      refuse(path + ".name", "the problem has a constraint '{}' already; choose another name",
             added.name);
    }
  }
  changed.constraints.push_back(std::move(added));
  push_problem(L, {solver::LoweredProblem(std::move(changed)), p.choices});
  return 1;
}

}  // namespace tessera::solver_lua
