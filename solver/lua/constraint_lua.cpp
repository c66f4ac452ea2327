// Side constraints as scripts write them.

#include <fmt/format.h>

#include "core_lua.h"
#include "problem_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::solver_lua {

const OptionTable& constraint_term_options() {
  static const OptionTable table{
      "problem:add_constraint.term",
      "Counts the layers that match everything given.",
      "",
      {{.name = "stage",
        .type = OptionType::integer,
        .doc = "On this stage (1-based)",
        .min = 1,
        .max = 1e6},
       {.name = "boundary",
        .type = OptionType::integer,
        .doc = "On stages 1 to this one: the first layer (0-based) of the stage after it",
        .min = 1,
        .max = 1e6},
       {.name = "device",
        .type = OptionType::text,
        .doc = "On devices of this name, \"T4-16G\" or \"T4-16G@node\""},
       {.name = "bitwidth",
        .type = OptionType::integer,
        .doc = "At this bitwidth",
        .unit = "bits",
        .min = 1,
        .max = 16},
       {.name = "layer",
        .type = OptionType::integer,
        .doc = "This one layer (0-based): 1 or 0",
        .min = 0,
        .max = 1e6},
       {.name = "coefficient",
        .doc = "What each such layer adds to the left side",
        .default_text = "1",
        .min = -1e15,
        .max = 1e15}}};
  return table;
}

namespace {

solver::Constraint constraint_argument(lua_State* L, int index, const std::string& path) {
  const lua_kit::Options options(L, index, constraint_options(), path);
  options.push("terms");
  lua_kit::for_each_item(
      L, lua_gettop(L), options.path_of("terms"), [&](std::size_t, const std::string& term) {
        const lua_kit::Options checked(L, lua_gettop(L), constraint_term_options(), term);
      });
  lua_pop(L, 1);
  Json json = lua_kit::json_from_lua(L, index, path);
  for (Json& term : json["terms"]) {
    if (term.empty()) term = Json::object();  // an empty table reads as an empty list
  }
  return solver::constraint_from_json(json, path);
}

}  // namespace

const OptionTable& constraint_options() {
  static const OptionTable table{
      "problem:add_constraint",
      "A copy of the problem with one more linear row that every plan must keep: sum of terms, "
      "sense, rhs. The ILP planner keeps it, the checker checks it in every plan.",
      "tessera.Problem",
      {{.name = "name", .type = OptionType::text, .doc = "For messages", .required = true},
       {.name = "terms",
        .type = OptionType::table,
        .doc = "List of { stage or boundary, device, bitwidth, layer, coefficient = 1 }: each "
               "counts the layers that match everything given",
        .lua_type = "table[]",
        .required = true},
       {.name = "sense",
        .type = OptionType::choice,
        .doc = "How the left side compares with rhs",
        .choices = {"<=", ">=", "=="},
        .required = true},
       {.name = "rhs", .doc = "Right-hand side", .min = -1e15, .max = 1e15, .required = true}}};
  return table;
}

std::vector<solver::Constraint> constraints_argument(lua_State* L, int index,
                                                     const std::string& path) {
  Json list = Json::array();
  lua_kit::check_table(L, index, path, "a list of side constraints");
  lua_kit::for_each_item(L, index, path, [&](std::size_t, const std::string& item) {
    list.push_back(to_json(constraint_argument(L, lua_gettop(L), item)));
  });
  return solver::constraints_from_json(list, path);
}

int add_constraint(lua_State* L) {
  const solver::OpenProblem& p = problem_argument(L, 1);
  const std::string path = "problem:add_constraint";
  solver::Constraint added = constraint_argument(L, 2, path);
  resolve(added, p.first.instance(), path);
  solver::Problem changed = p.first.problem();
  for (const solver::Constraint& other : changed.constraints) {
    if (other.name == added.name) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}.name: the problem has a constraint '{}' already; choose another "
                              "name",
                              path, added.name),
                  path + ".name");
    }
  }
  changed.constraints.push_back(std::move(added));
  push_problem(L, {solver::LoweredProblem(std::move(changed)), p.choices});
  return 1;
}

}  // namespace tessera::solver_lua
