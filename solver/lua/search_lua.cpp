#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "core_lua.h"
#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/heuristic/heuristic_starts.h"
#include "tessera/solver/heuristic/heuristics.h"
#include "tessera/solver/moves/plan_search.h"
#include "tessera/solver/plan/build_plan.h"

namespace tessera {

namespace solver_lua {

using MoveBlock = std::array<solver::Move, 256>;

/// Blocks outlive the searches that they served: a script may look at a move that it should have
/// forgotten, and must then read a wrong move, not freed memory.
class MoveBlocks {
 public:
  MoveBlock* take() {
    if (free_.empty()) free_.push_back(all_.emplace_back(std::make_unique<MoveBlock>()).get());
    MoveBlock* block = free_.back();
    free_.pop_back();
    return block;
  }
  void give_back(MoveBlock* block) { free_.push_back(block); }

 private:
  std::vector<std::unique_ptr<MoveBlock>> all_;
  std::vector<MoveBlock*> free_;
};

MoveBlocks& move_blocks() {
  thread_local auto* blocks = new MoveBlocks;  // one Lua state per thread; never destroyed
  return *blocks;
}

/// A search in the hands of a script. The library reads blocks of moves in place through the FFI
/// (scripts/tessera/search.lua declares the same record); everything else goes through here.
struct ScriptSearch {
  solver::LoweredProblem problem;
  std::string planner;
  std::unique_ptr<solver::PlanSearch> search;
  MoveBlock* block = move_blocks().take();

  ScriptSearch(solver::LoweredProblem of, std::string by)
      : problem(std::move(of)), planner(std::move(by)) {}
  ScriptSearch(const ScriptSearch&) = delete;
  ScriptSearch& operator=(const ScriptSearch&) = delete;
  ~ScriptSearch() { move_blocks().give_back(block); }
};

/// The starts of a heuristic, and the best plan that its searches met.
struct ScriptStarts {
  solver::LoweredProblem problem;
  std::string planner;
  std::function<void(const solver::Incumbent&)> on_incumbent;
  std::unique_ptr<solver::Starts> starts;
  std::shared_ptr<double> best = std::make_shared<double>(std::numeric_limits<double>::infinity());
};

/// The record as scripts/tessera/search.lua declares it.
static_assert(sizeof(solver::Move) == 88 && offsetof(solver::Move, objective_delta) == 40 &&
              offsetof(solver::Move, fits) == 80);

}  // namespace solver_lua

using solver_lua::ScriptSearch;
using solver_lua::ScriptStarts;

namespace {

const ScriptSearch& self(lua_State* L) {
  return *lua_kit::check_object<ScriptSearch>(L, 1, "search");
}

std::uint32_t kinds_argument(lua_State* L, int index) {
  if (lua_isnoneornil(L, index)) return solver::MoveQuery{}.kinds;
  std::uint32_t kinds = 0;
  std::vector<std::string> names;
  for (int k = 0; k < solver::kNumMoveKinds; ++k) {
    names.emplace_back(to_string(static_cast<solver::MoveKind>(k)));
  }
  lua_kit::for_each_item(L, index, "search:moves.kinds", [&](std::size_t, const std::string& path) {
    const std::string name = lua_kit::check_text(L, -1, path);
    const auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: no kind of move is called {}{}", path, quote(name),
                              did_you_mean(name, names)),
                  "search:moves.kinds");
    }
    kinds |= 1u << (it - names.begin());
  });
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
  lua_pushlightuserdata(L, s.block->data());
  lua_pushinteger(L, static_cast<lua_Integer>(s.search->next(s.block->data(), s.block->size())));
  return 2;
}

/// The numbers that make a move; its figures are computed anew.
solver::Move move_argument(lua_State* L) {
  solver::Move move;
  std::int32_t* const fields[] = {
      &move.kind,           &move.from_stage,      &move.to_stage,    &move.first_layer,
      &move.num_layers,     &move.from_bitwidth,   &move.to_bitwidth, &move.other_layer,
      &move.pioneer_layers, &move.pioneer_bitwidth};
  int index = 2;
  for (std::int32_t* field : fields) {
    *field = static_cast<std::int32_t>(
        lua_kit::check_integer(L, index++, "move", -2147483647, 2147483647));
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

/// plan(solve_s): the best plan met.
int best_plan(lua_State* L) {
  const ScriptSearch& s = self(L);
  solver::PlanResult result;
  result.status = solver::SolveStatus::feasible;
  result.candidate = s.search->best();
  result.objective = s.search->best_objective();
  result.solve_s = lua_isnoneornil(L, 2) ? 0 : lua_kit::check_number(L, 2, "solve_s", 0, 1e9);
  solver_lua::push_plan(L, s.problem, result, s.planner);
  return 1;
}

int best_objective(lua_State* L) {
  lua_pushnumber(L, self(L).search->best_objective());
  return 1;
}

std::vector<std::unique_ptr<solver::Heuristic>> heuristics() {
  std::vector<std::unique_ptr<solver::Heuristic>> list;
  list.push_back(solver::make_bitwidth_transfer());
  return list;
}

/// improve(name): by a heuristic in C++.
int improve(lua_State* L) {
  const std::string name = lua_kit::check_text(L, 2, "heuristic");
  for (const auto& heuristic : heuristics()) {
    if (heuristic->card().name != name) continue;
    heuristic->improve(*self(L).search);
    return 0;
  }
  throw Error(ErrorCode::not_found, "no heuristic in C++ is called " + quote(name), "heuristic");
}

/// next(): the search from the next start, or nil.
int next_start(lua_State* L) {
  const ScriptStarts& s = *lua_kit::check_object<ScriptStarts>(L, 1, "starts");
  auto candidate = s.starts->next();
  if (!candidate) return 0;
  auto state = std::make_shared<ScriptSearch>(s.problem, s.planner);
  solver::PlanRequest request = s.starts->request();
  request.on_incumbent = [best = s.best, tell = s.on_incumbent](const solver::Incumbent& better) {
    if (better.objective >= *best) return;
    *best = better.objective;
    tell(better);
  };
  state->search =
      std::make_unique<solver::PlanSearch>(s.problem.instance(), *std::move(candidate), request);
  request.on_incumbent({state->search->best(), state->search->best_objective(),
                        -std::numeric_limits<double>::infinity()});
  lua_kit::push_object<ScriptSearch>(L, std::move(state));
  return 1;
}

int left_s(lua_State* L) {
  const ScriptStarts& s = *lua_kit::check_object<ScriptStarts>(L, 1, "starts");
  lua_pushnumber(L, s.starts->request().time_limit_s);
  return 1;
}

/// why(): code and message of why there was no start.
int why(lua_State* L) {
  const ScriptStarts& s = *lua_kit::check_object<ScriptStarts>(L, 1, "starts");
  if (const auto status = s.starts->stopped_by()) {
    lua_kit::push_text(L, std::string(to_string(*status)));
    lua_kit::push_text(L, "no plan was found within the time limit; raise time_limit_s");
  } else {
    lua_kit::push_text(L, "infeasible");
    lua_kit::push_text(L, s.starts->violation() ? s.starts->violation()->message
                                                : "no pair of micro-batch sizes to start from");
  }
  return 2;
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
                  {"best_objective", guarded<best_objective>, "(): number", ""},
                  {"plan", guarded<best_plan>, "(solve_s: number?): tessera.Plan", ""},
                  {"improve", guarded<improve>, "(heuristic: string)", ""}},
      .summary = [](const ScriptSearch& s) {
        return fmt::format("search: objective {:.6g} s after {} moves", s.search->objective(),
                           s.search->moves_made());
      }};
  return type;
}

template <>
const lua_kit::ObjectType<ScriptStarts>& lua_kit::object_type<ScriptStarts>() {
  static const ObjectType<ScriptStarts> type{
      .name = "tessera.Starts",
      .doc = "Where a heuristic starts, one search after the other.",
      .fields = {},
      .methods = {{"next", guarded<next_start>, "(): tessera.SearchState?", ""},
                  {"left_s", guarded<left_s>, "(): number", ""},
                  {"why", guarded<why>, "(): string, string", ""}},
      .summary = [](const ScriptStarts& s) { return "starts of " + s.planner; }};
  return type;
}

namespace solver_lua {

int new_search(lua_State* L) {
  const auto problem = lua_kit::check_object<solver::OpenProblem>(L, 1, "problem");
  const auto start = lua_kit::check_object<solver::Plan>(L, 2, "start");
  const lua_kit::Options options(L, 3, plan_options(), "ts.plan");
  auto state = std::make_shared<ScriptSearch>(problem->first, lua_kit::check_utf8(L, 4, "planner"));
  const solver::Instance& instance = state->problem.instance();
  solver::PlanRequest request = request_from(instance, options);
  request.on_incumbent = incumbent_handler(L, state->problem, options, state->planner);
  state->search = std::make_unique<solver::PlanSearch>(
      instance, solver::candidate_of(instance, pipeline_of(*start, "start")), request);
  request.on_incumbent({state->search->best(), state->search->best_objective(),
                        -std::numeric_limits<double>::infinity()});
  lua_kit::push_object<ScriptSearch>(L, std::move(state));
  return 1;
}

int new_starts(lua_State* L) {
  const auto problem = lua_kit::check_object<solver::OpenProblem>(L, 1, "problem");
  const lua_kit::Options options(L, 2, plan_options(), "ts.plan");
  const std::string planner = lua_kit::check_utf8(L, 3, "planner");
  const solver::Instance& instance = problem->first.instance();
  auto state = std::make_shared<ScriptStarts>(
      ScriptStarts{problem->first, planner, incumbent_handler(L, problem->first, options, planner),
                   std::make_unique<solver::Starts>(instance, request_from(instance, options))});
  lua_kit::push_object<ScriptStarts>(L, std::move(state));
  return 1;
}

/// heuristic_cards(): of those in C++.
int heuristic_cards(lua_State* L) {
  Json cards = Json::array();
  for (const auto& heuristic : heuristics()) {
    const solver::HeuristicCard card = heuristic->card();
    cards.push_back({{"name", card.name}, {"doc", card.doc}, {"source", card.source}});
  }
  lua_kit::push_json(L, cards);
  return 1;
}

void register_search(lua_State* L) {
  lua_kit::register_object<ScriptSearch>(L);
  lua_kit::register_object<ScriptStarts>(L);
}

}  // namespace solver_lua
}  // namespace tessera
