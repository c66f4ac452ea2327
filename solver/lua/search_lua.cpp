#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core_lua.h"
#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/plan_search.h"

namespace tessera {

namespace solver_lua {

/// A search in the hands of a script. The library reads blocks of moves in place through the FFI
/// (scripts/tessera/search.lua declares the same record); everything else goes through here.
struct ScriptSearch {
  std::shared_ptr<const LoweredProblem> problem;
  mutable std::unique_ptr<solver::PlanSearch> search;
  mutable std::array<solver::Move, 256> block;
};

}  // namespace solver_lua

using solver_lua::ScriptSearch;

namespace {

const ScriptSearch& self(lua_State* L) {
  return *lua_kit::check_object<ScriptSearch>(L, 1, "search");
}

std::uint32_t kinds_argument(lua_State* L, int index) {
  if (lua_isnoneornil(L, index)) return solver::MoveQuery{}.kinds;
  luaL_checktype(L, index, LUA_TTABLE);
  std::uint32_t kinds = 0;
  std::vector<std::string> names;
  for (int k = 0; k < solver::kNumMoveKinds; ++k) {
    names.emplace_back(to_string(static_cast<solver::MoveKind>(k)));
  }
  for (int i = 1; i <= static_cast<int>(lua_objlen(L, index)); ++i) {
    lua_rawgeti(L, index, i);
    const std::string name = lua_kit::check_text(L, -1, fmt::format("search:moves.kinds[{}]", i));
    lua_pop(L, 1);
    const auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("search:moves.kinds[{}]: no kind of move is called {}{}", i,
                              quote(name), did_you_mean(name, names)),
                  "search:moves.kinds");
    }
    kinds |= 1u << (it - names.begin());
  }
  return kinds;
}

std::optional<std::size_t> stage_argument(lua_State* L, int index, const char* name) {
  if (lua_isnoneornil(L, index)) return std::nullopt;
  return static_cast<std::size_t>(lua_kit::check_integer(L, index, name, 0, 1e6));
}

/// start(from, to, kinds)
int start(lua_State* L) {
  solver::MoveQuery query;
  query.from_stage = stage_argument(L, 2, "search:moves.from");
  query.to_stage = stage_argument(L, 3, "search:moves.to");
  query.kinds = kinds_argument(L, 4);
  self(L).search->start(query);
  return 0;
}

/// next(): address and number of the next moves.
int next(lua_State* L) {
  const ScriptSearch& s = self(L);
  lua_pushlightuserdata(L, s.block.data());
  lua_pushinteger(L, static_cast<lua_Integer>(s.search->next(s.block.data(), s.block.size())));
  return 2;
}

/// The eight numbers that make a move; its figures are computed anew.
solver::Move move_argument(lua_State* L) {
  solver::Move move;
  std::int32_t* const fields[] = {&move.kind,          &move.from_stage,   &move.to_stage,
                                  &move.first_layer,   &move.num_layers,   &move.from_bitwidth,
                                  &move.to_bitwidth,   &move.other_layer};
  int index = 2;
  for (std::int32_t* field : fields) {
    *field = static_cast<std::int32_t>(lua_kit::check_integer(L, index++, "move", -1, 2147483647));
  }
  return move;
}

int apply(lua_State* L) {
  self(L).search->apply(move_argument(L));
  return 0;
}

/// evaluate(move...): fits, objective_delta, prefill_delta_s, decode_delta_s, omega_delta,
/// memory_delta_bytes
int evaluate(lua_State* L) {
  const solver::Move move = self(L).search->evaluate(move_argument(L));
  lua_pushboolean(L, move.fits);
  for (double value : {move.objective_delta, move.prefill_delta_s, move.decode_delta_s,
                       move.omega_delta, move.memory_delta_bytes}) {
    lua_pushnumber(L, value);
  }
  return 6;
}

int undo(lua_State* L) {
  lua_pushboolean(L, self(L).search->undo());
  return 1;
}

int perturb(lua_State* L) {
  self(L).search->perturb(lua_kit::check_number(L, 2, "search:perturb strength", 0, 1));
  return 0;
}

int slowest_stage(lua_State* L) {
  lua_pushinteger(L, static_cast<lua_Integer>(self(L).search->slowest_stage()));
  return 1;
}

int objective(lua_State* L) {
  lua_pushnumber(L, self(L).search->objective());
  return 1;
}

int expired(lua_State* L) {
  lua_pushboolean(L, self(L).search->expired());
  return 1;
}

int moves_made(lua_State* L) {
  lua_kit::push_integer(L, self(L).search->moves_made());
  return 1;
}

int random(lua_State* L) {
  lua_pushnumber(L, self(L).search->random().uniform());
  return 1;
}

/// best(planner, solve_s): the best plan met.
int best(lua_State* L) {
  const ScriptSearch& s = self(L);
  solver::PlanResult result;
  result.status = solver::SolveStatus::feasible;
  result.candidate = s.search->best();
  result.objective = s.search->best_objective();
  result.solve_s = lua_isnoneornil(L, 3) ? 0 : lua_kit::check_number(L, 3, "solve_s", 0, 1e9);
  lua_kit::push_object<Plan>(
      L, std::make_shared<Plan>(solver::build_plan(s.problem->problem, s.problem->instance, result,
                                                   lua_kit::check_text(L, 2, "planner"))));
  return 1;
}

/// bitwidth_transfer(search): the heuristic in C++.
int bitwidth_transfer(lua_State* L) {
  solver::make_bitwidth_transfer()->improve(*self(L).search);
  return 0;
}

}  // namespace

template <>
const lua_kit::ObjectType<ScriptSearch>& lua_kit::object_type<ScriptSearch>() {
  static const ObjectType<ScriptSearch> type{
      .name = "tessera.SearchState",
      .doc = "What the search object of a heuristic stands on; scripts use the object.",
      .fields = {},
      .methods = {{"start", guarded<start>, "(from: integer?, to: integer?, kinds: string[]?)", ""},
                  {"next", guarded<next>, "(): lightuserdata, integer", ""},
                  {"apply", guarded<apply>, "(...: integer)", ""},
                  {"evaluate", guarded<evaluate>, "(...: integer): boolean, number", ""},
                  {"undo", guarded<undo>, "(): boolean", ""},
                  {"perturb", guarded<perturb>, "(strength: number)", ""},
                  {"slowest_stage", guarded<slowest_stage>, "(): integer", ""},
                  {"objective", guarded<objective>, "(): number", ""},
                  {"expired", guarded<expired>, "(): boolean", ""},
                  {"moves_made", guarded<moves_made>, "(): integer", ""},
                  {"random", guarded<random>, "(): number", ""},
                  {"best", guarded<best>, "(planner: string, solve_s: number?): tessera.Plan", ""},
                  {"bitwidth_transfer", guarded<bitwidth_transfer>, "()", ""}},
      .summary = [](const ScriptSearch& s) {
        return fmt::format("search: objective {:.6g} s after {} moves", s.search->objective(),
                           s.search->moves_made());
      }};
  return type;
}

namespace solver_lua {

/// search(problem, candidate table, options of ts.plan)
int new_search(lua_State* L) {
  auto state = std::make_shared<ScriptSearch>();
  state->problem = lua_kit::check_object<LoweredProblem>(L, 1, "problem");
  const solver::Instance& instance = state->problem->instance;
  solver::Candidate start = candidate_argument(L, 2, instance, "start");
  const lua_kit::Options options(L, 3, plan_options(), "ts.plan");
  state->search = std::make_unique<solver::PlanSearch>(instance, std::move(start),
                                                       request_from(*state->problem, options));
  lua_kit::push_object<ScriptSearch>(L, std::move(state));
  return 1;
}

void register_search(lua_State* L) { lua_kit::register_object<ScriptSearch>(L); }

}  // namespace solver_lua
}  // namespace tessera
