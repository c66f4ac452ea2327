// Schedulers that are Lua functions. A decision makes many small calls: scripts read records in
// place and call functions by address through the FFI, both of which LuaJIT compiles.

#include "scheduler_lua.h"

#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/serving/script_scheduler.h"

namespace tessera::serving_lua {
namespace {

using serving::ScriptDecision;
using serving::ScriptField;
using serving::ScriptRequest;

/// As scripts/tessera/plugins/scheduler_view.lua declares it.
struct DecisionView {
  double now_s = 0, epoch = 0, free_blocks = 0, tokens_left = 0, seats_left = 0, block_size = 0;
  double num_running = 0, num_waiting = 0;
  const ScriptRequest* (*running)(DecisionView*, double) noexcept = nullptr;
  const ScriptRequest* (*waiting)(DecisionView*, double) noexcept = nullptr;
  // Below zero: an error is kept, see scheduler_error.
  double (*schedule)(DecisionView*, std::int32_t, double) noexcept = nullptr;
  double (*preempt)(DecisionView*, std::int32_t) noexcept = nullptr;
  double (*cached_tokens)(DecisionView*, std::int32_t) noexcept = nullptr;
  double (*blocks_needed)(DecisionView*, std::int32_t) noexcept = nullptr;

  ScriptDecision* decision = nullptr;  // scripts do not see what follows
};

constexpr ScriptField kViewFields[] = {
    {"now_s", offsetof(DecisionView, now_s), "Time (s)"},
    {"epoch", offsetof(DecisionView, epoch), ""},
    {"free_blocks", offsetof(DecisionView, free_blocks), "Of the KV cache"},
    {"tokens_left", offsetof(DecisionView, tokens_left), "Of max_num_batched_tokens"},
    {"seats_left", offsetof(DecisionView, seats_left), "Of max_num_seqs"},
    {"block_size", offsetof(DecisionView, block_size), "Tokens in a block"},
    {"num_running", offsetof(DecisionView, num_running), "Requests that ran when the step began"},
    {"num_waiting", offsetof(DecisionView, num_waiting),
     "Requests that waited when the step began"}};
static_assert(begins_with(kViewFields) &&
              offsetof(DecisionView, running) == sizeof(double) * std::size(kViewFields) &&
              offsetof(ScriptRequest, handle) ==
                  sizeof(double) * std::size(serving::kScriptRequestFields) &&
              sizeof(ScriptRequest) == offsetof(ScriptRequest, handle) + 8);

template <std::size_t N>
void set_fields(lua_State* L, const char* name, const ScriptField (&fields)[N]) {
  lua_createtable(L, N, 0);
  for (std::size_t i = 0; i < N; ++i) {
    lua_createtable(L, 0, 2);
    lua_kit::set_text(L, "name", fields[i].name);
    lua_kit::set_text(L, "doc", fields[i].doc);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  lua_setfield(L, -2, name);
}

std::exception_ptr& kept_error() {
  thread_local std::exception_ptr error;
  return error;
}

void refresh(DecisionView& view) {
  const ScriptDecision& d = *view.decision;
  view.free_blocks = static_cast<double>(d.free_blocks());
  view.tokens_left = static_cast<double>(d.tokens_left());
  view.seats_left = static_cast<double>(d.seats_left());
}

template <class Body>
double kept(DecisionView* view, Body&& body) noexcept {
  try {
    if (view->decision == nullptr) {
      throw Error(ErrorCode::invalid_argument,
                  "a scheduler's view is good for the decision that it was given for");
    }
    const double result = static_cast<double>(body(*view->decision));
    refresh(*view);
    return result;
  } catch (const std::exception&) {  // no Lua runs in here
    kept_error() = std::current_exception();
    return -1;
  }
}

double schedule(DecisionView* view, std::int32_t handle, double tokens) noexcept {
  return kept(view, [&](ScriptDecision& d) { return d.schedule(handle, tokens); });
}
double preempt(DecisionView* view, std::int32_t handle) noexcept {
  return kept(view, [&](ScriptDecision& d) { return d.preempt(handle), 0; });
}
double cached_tokens(DecisionView* view, std::int32_t handle) noexcept {
  return kept(view, [&](ScriptDecision& d) { return d.cached_tokens(handle); });
}
double blocks_needed(DecisionView* view, std::int32_t handle) noexcept {
  return kept(view, [&](ScriptDecision& d) { return d.blocks_needed(handle); });
}

/// 1-based, as scripts count.
std::int64_t position(double i) {
  return i >= 1 && i < 1e15 ? static_cast<std::int64_t>(i) - 1 : -1;
}
const ScriptRequest* running(DecisionView* view, double i) noexcept {
  return view->decision != nullptr ? view->decision->running(position(i)) : nullptr;
}
const ScriptRequest* waiting(DecisionView* view, double i) noexcept {
  return view->decision != nullptr ? view->decision->waiting(position(i)) : nullptr;
}

/// Views outlive their schedulers: a script may keep one, and must then be told, not read freed
/// memory.
DecisionView* new_view() {
  thread_local auto* all = new std::vector<std::unique_ptr<DecisionView>>;  // never destroyed
  all->push_back(std::make_unique<DecisionView>());
  DecisionView* view = all->back().get();
  view->running = running;
  view->waiting = waiting;
  view->schedule = schedule;
  view->preempt = preempt;
  view->cached_tokens = cached_tokens;
  view->blocks_needed = blocks_needed;
  return view;
}

/// Calls decide(), which scripts/tessera/plugins/schedulers.lua bound to the view.
void decide_by(const lua_kit::LuaFunction& decide, DecisionView& view, ScriptDecision& decision) {
  struct Lent {
    DecisionView& view;
    ~Lent() { view.decision = nullptr; }
  } lent{view};
  view.decision = &decision;
  view.now_s = decision.now_s();
  view.epoch = decision.epoch();
  view.block_size = static_cast<double>(decision.block_size());
  view.num_running = static_cast<double>(decision.num_running());
  view.num_waiting = static_cast<double>(decision.num_waiting());
  refresh(view);
  decide.call(0, 0);
}

/// require("tessera.plugins.schedulers").bind(name, view): decide, every_step, removed or nil
serving::ScriptPolicy bind(lua_State* L, const std::string& name) {
  const lua_kit::StackGuard guard(L);
  luaL_checkstack(L, 8, "a scheduler");
  lua_getglobal(L, "require");
  const lua_kit::LuaFunction require(L, -1, "require");
  lua_pushliteral(L, "tessera.plugins.schedulers");
  require.call(1, 1);
  lua_kit::push_field(L, lua_gettop(L), "bind", "tessera.plugins.schedulers");
  const lua_kit::LuaFunction bind(L, -1, "tessera.plugins.schedulers.bind");
  DecisionView* view = new_view();
  lua_kit::push_text(L, name);
  lua_pushlightuserdata(L, view);
  bind.call(2, 3);
  auto decide = std::make_shared<lua_kit::LuaFunction>(L, -3, "scheduler");
  serving::ScriptPolicy policy;
  policy.name = name;
  policy.every_step = lua_toboolean(L, -2) != 0;
  policy.decide = [decide, view](ScriptDecision& decision) { decide_by(*decide, *view, decision); };
  if (!lua_isnil(L, -1)) {
    auto removed = std::make_shared<lua_kit::LuaFunction>(L, -1, "scheduler");
    policy.removed = [removed](std::int64_t request) {
      lua_pushnumber(removed->state(), static_cast<double>(request));
      removed->call(1, 0);
    };
  }
  return policy;
}

}  // namespace

serving::MakeScheduler scheduler_maker(lua_State* L) {
  // The main thread of the state: a coroutine may be gone by the time that a run starts.
  lua_pushboolean(L, 1);
  auto anchor = std::make_shared<lua_kit::LuaRef>(L, -1);
  lua_pop(L, 1);
  return [anchor](const serving::EngineOptions& options, const serving::BlockManager::Options& kv) {
    if (serving::schedulers().has(options.scheduler)) return serving::make_scheduler(options, kv);
    lua_State* state = anchor->state();
    if (state == nullptr) return serving::make_scheduler(options, kv);
    return serving::make_script_scheduler(options, kv, bind(state, options.scheduler));
  };
}

int scheduler_fields(lua_State* L) {
  lua_createtable(L, 0, 2);
  set_fields(L, "request", serving::kScriptRequestFields);
  set_fields(L, "view", kViewFields);
  return 1;
}

int scheduler_error(lua_State*) {
  std::exception_ptr error;
  std::swap(error, kept_error());
  if (error) std::rethrow_exception(error);
  return 0;
}

}  // namespace tessera::serving_lua
