#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "core_lua.h"
#include "script_planners.h"
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
#include "tessera/solver/planning/planners.h"

namespace tessera {

namespace solver_lua {

/// What a round hands out at a time; the last place is for the move that was drawn.
using MoveBlock = std::array<solver::Move, 257>;

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
/// (scripts/tessera/planning/search.lua declares the same record); everything else goes through
/// here.
struct ScriptSearch {
  std::shared_ptr<solver::ImprovingSearch> of;
  MoveBlock* block = move_blocks().take();

  explicit ScriptSearch(std::shared_ptr<solver::ImprovingSearch> search) : of(std::move(search)) {}
  ScriptSearch(const ScriptSearch&) = delete;
  ScriptSearch& operator=(const ScriptSearch&) = delete;
  ~ScriptSearch() { move_blocks().give_back(block); }
};

/// The record as scripts/tessera/planning/search.lua declares it.
static_assert(sizeof(solver::Move) == 88 && offsetof(solver::Move, objective_delta) == 40 &&
              offsetof(solver::Move, fits) == 80);

}  // namespace solver_lua

using solver_lua::ScriptSearch;

namespace {

const ScriptSearch& self(lua_State* L) {
  return *lua_kit::check_object<ScriptSearch>(L, 1, "search");
}

std::uint32_t kinds_argument(lua_State* L, int index, const std::string& where) {
  if (lua_isnoneornil(L, index)) return solver::MoveQuery{}.kinds;
  std::uint32_t kinds = 0;
  std::vector<std::string> names;
  for (int k = 0; k < solver::kNumMoveKinds; ++k) {
    names.emplace_back(name_of(static_cast<solver::MoveKind>(k)));
  }
  lua_kit::for_each_item(L, index, where, [&](std::size_t, const std::string& path) {
    const std::string name = lua_kit::check_text(L, -1, path);
    const auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: no kind of move is called {}{}", path, quote(name),
                              did_you_mean(name, names)),
                  where);
    }
    kinds |= 1u << (it - names.begin());
  });
  return kinds;
}

std::optional<std::size_t> stage_argument(lua_State* L, int index, const std::string& name) {
  if (lua_isnoneornil(L, index)) return std::nullopt;
  return static_cast<std::size_t>(lua_kit::check_integer(L, index, name, 0, 1e6));
}

/// Arguments 2 to 4: from, to, kinds.
solver::MoveQuery query_arguments(lua_State* L, const std::string& method) {
  solver::MoveQuery query;
  query.from_stage = stage_argument(L, 2, method + ".from");
  query.to_stage = stage_argument(L, 3, method + ".to");
  query.kinds = kinds_argument(L, 4, method + ".kinds");
  return query;
}

/// start(from, to, kinds)
int start(lua_State* L) {
  self(L).of->search.start(query_arguments(L, "search:moves"));
  return 0;
}

/// count(from, to, kinds)
int count(lua_State* L) {
  const auto n = self(L).of->search.count(query_arguments(L, "search:count"));
  lua_pushinteger(L, static_cast<lua_Integer>(n));
  return 1;
}

/// random_move(from, to, kinds, fits): address of the move; nothing where there is none.
int random_move(lua_State* L) {
  const ScriptSearch& s = self(L);
  const solver::MoveQuery query = query_arguments(L, "search:random_move");
  const auto move = s.of->search.random_move(query, lua_toboolean(L, 5) != 0);
  if (!move) return 0;
  s.block->back() = *move;
  lua_pushlightuserdata(L, &s.block->back());
  return 1;
}

/// stages(): of the plan at hand.
int stages(lua_State* L) {
  lua_newtable(L);
  int k = 0;
  for (const solver::SearchStage& stage : self(L).of->search.stages()) {
    lua_createtable(L, 0, 8);
    lua_kit::set_text(L, "device", stage.device);
    const std::pair<const char*, double> numbers[] = {
        {"first_layer", static_cast<double>(stage.first_layer)},
        {"num_layers", static_cast<double>(stage.num_layers)},
        {"prefill_s", stage.prefill_s},
        {"decode_s", stage.decode_s},
        {"memory_bytes", stage.memory_bytes},
        {"memory_left_bytes", stage.memory_left_bytes}};
    for (const auto& [name, value] : numbers) {
      lua_pushnumber(L, value);
      lua_setfield(L, -2, name);
    }
    lua_createtable(L, static_cast<int>(stage.bitwidths.size()), 0);
    for (std::size_t i = 0; i < stage.bitwidths.size(); ++i) {
      lua_pushinteger(L, stage.bitwidths[i]);
      lua_rawseti(L, -2, static_cast<int>(i) + 1);
    }
    lua_setfield(L, -2, "bitwidths");
    lua_rawseti(L, -2, ++k);
  }
  return 1;
}

/// micro_batch_sizes(): prefill, decode
int micro_batch_sizes(lua_State* L) {
  const solver::Candidate& c = self(L).of->search.current();
  lua_kit::push_integer(L, c.prefill_micro_batch_size);
  lua_kit::push_integer(L, c.decode_micro_batch_size);
  return 2;
}

int omega(lua_State* L) {
  lua_pushnumber(L, self(L).of->search.omega());
  return 1;
}

/// next(): address and number of the next moves.
int next(lua_State* L) {
  const ScriptSearch& s = self(L);
  lua_pushlightuserdata(L, s.block->data());
  lua_pushinteger(
      L, static_cast<lua_Integer>(s.of->search.next(s.block->data(), s.block->size() - 1)));
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
  self(L).of->search.apply(move_argument(L));
  return 0;
}

/// evaluate(move...): fits, objective_delta, prefill_delta_s, decode_delta_s, omega_delta,
/// memory_delta_bytes
int evaluate(lua_State* L) {
  const solver::Move move = self(L).of->search.evaluate(move_argument(L));
  lua_pushboolean(L, move.fits);
  for (double value : {move.objective_delta, move.prefill_delta_s, move.decode_delta_s,
                       move.omega_delta, move.memory_delta_bytes}) {
    lua_pushnumber(L, value);
  }
  return 6;
}

int undo(lua_State* L) {
  lua_pushboolean(L, self(L).of->search.undo());
  return 1;
}

int perturb(lua_State* L) {
  self(L).of->search.perturb(lua_kit::check_number(L, 2, "search:perturb strength", 0, 1));
  return 0;
}

int slowest_stage(lua_State* L) {
  lua_pushinteger(L, static_cast<lua_Integer>(self(L).of->search.slowest_stage()));
  return 1;
}

int objective(lua_State* L) {
  lua_pushnumber(L, self(L).of->search.objective());
  return 1;
}

int expired(lua_State* L) {
  lua_pushboolean(L, self(L).of->search.expired());
  return 1;
}

int moves_made(lua_State* L) {
  lua_kit::push_integer(L, self(L).of->search.moves_made());
  return 1;
}

int random(lua_State* L) {
  lua_pushnumber(L, self(L).of->search.random().uniform());
  return 1;
}

/// plan(): the best plan met.
int best_plan(lua_State* L) {
  solver_lua::push_plan(L, solver::plan_of(*self(L).of, 0));
  return 1;
}

int best_objective(lua_State* L) {
  lua_pushnumber(L, self(L).of->search.best_objective());
  return 1;
}

}  // namespace

template <>
const lua_kit::ObjectType<ScriptSearch>& lua_kit::object_type<ScriptSearch>() {
  static const ObjectType<ScriptSearch> type{
      .name = "tessera.SearchState",
      .doc = "What the search object of a heuristic stands on; scripts use the object.",
      .fields = {},
      .methods =
          {{"start", guarded<start>, "(from: integer?, to: integer?, kinds: string[]?)", ""},
           {"next", guarded<next>, "(): lightuserdata, integer", ""},
           {"count", guarded<count>, "(from: integer?, to: integer?, kinds: string[]?): integer",
            ""},
           {"random_move", guarded<random_move>,
            "(from: integer?, to: integer?, kinds: string[]?, fits: boolean?): lightuserdata?", ""},
           {"stages", guarded<stages>, "(): table", ""},
           {"micro_batch_sizes", guarded<micro_batch_sizes>, "(): integer, integer", ""},
           {"omega", guarded<omega>, "(): number", ""},
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
           {"plan", guarded<best_plan>, "(): tessera.Plan", ""}},
      .summary = [](const ScriptSearch& s) {
        return fmt::format("search: objective {:.6g} s after {} moves", s.of->search.objective(),
                           s.of->search.moves_made());
      }};
  return type;
}

namespace solver_lua {

void push_search(lua_State* L, std::shared_ptr<solver::ImprovingSearch> search) {
  lua_kit::push_object<ScriptSearch>(L, std::make_shared<ScriptSearch>(std::move(search)));
}

/// heuristic_cards(): of those in C++.
int heuristic_cards(lua_State* L) {
  lua_kit::push_cards(L, solver::heuristics().cards());
  return 1;
}

void register_search(lua_State* L) { lua_kit::register_object<ScriptSearch>(L); }

}  // namespace solver_lua
}  // namespace tessera
