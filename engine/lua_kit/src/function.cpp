#include "tessera/lua_kit/function.h"

#include <utility>

#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"

namespace tessera::lua_kit {
namespace {

const char kHomeKey = 0;

}  // namespace

// Lives in the registry and knows when its state is closed, so that references held by C++ objects
// with longer lives turn empty instead of dangling.
struct LuaRef::Home {
  lua_State* main;
  const void* registry;
};

std::shared_ptr<LuaRef::Home> LuaRef::home_of(lua_State* L) {
  using Holder = std::shared_ptr<Home>;
  lua_pushlightuserdata(L, const_cast<char*>(&kHomeKey));
  lua_rawget(L, LUA_REGISTRYINDEX);
  if (auto* holder = static_cast<Holder*>(lua_touserdata(L, -1))) {
    Holder home = *holder;
    lua_pop(L, 1);
    return home;
  }
  lua_pop(L, 1);
  lua_pushlightuserdata(L, const_cast<char*>(&kHomeKey));
  auto* holder = new (lua_newuserdata(L, sizeof(Holder))) Holder();
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, [](lua_State* state) -> int {
    auto* closing = static_cast<Holder*>(lua_touserdata(state, 1));
    if (*closing != nullptr) (*closing)->main = nullptr;
    closing->reset();
    return 0;
  });
  lua_setfield(L, -2, "__gc");
  // `L` may be a coroutine that is collected early; a thread of our own lives as long as the state.
  lua_State* keeper = lua_newthread(L);
  lua_setfield(L, -2, "thread");
  lua_setmetatable(L, -2);
  *holder = std::make_shared<Home>(Home{keeper, lua_topointer(L, LUA_REGISTRYINDEX)});
  Holder home = *holder;
  lua_rawset(L, LUA_REGISTRYINDEX);
  return home;
}

LuaRef::LuaRef(lua_State* L, int index) {
  luaL_checkstack(L, 6, "reference");
  lua_pushvalue(L, index);
  home_ = home_of(L);
  reference_ = luaL_ref(L, LUA_REGISTRYINDEX);
}

LuaRef::~LuaRef() { release(); }

LuaRef::LuaRef(LuaRef&& other) noexcept
    : home_(std::move(other.home_)), reference_(std::exchange(other.reference_, LUA_NOREF)) {}

LuaRef& LuaRef::operator=(LuaRef&& other) noexcept {
  if (this != &other) {
    release();
    home_ = std::move(other.home_);
    reference_ = std::exchange(other.reference_, LUA_NOREF);
  }
  return *this;
}

void LuaRef::release() noexcept {
  // luaL_unref writes to existing slots only, so it allocates nothing and cannot raise.
  if (home_ != nullptr && home_->main != nullptr) {
    luaL_unref(home_->main, LUA_REGISTRYINDEX, reference_);
  }
  home_.reset();
  reference_ = LUA_NOREF;
}

lua_State* LuaRef::state() const {
  if (home_ == nullptr || home_->main == nullptr) return nullptr;
  lua_State* running = running_state();
  if (running != nullptr && lua_topointer(running, LUA_REGISTRYINDEX) == home_->registry) {
    return running;
  }
  return home_->main;
}

void LuaRef::push(lua_State* L) const { lua_rawgeti(L, LUA_REGISTRYINDEX, reference_); }

LuaFunction::LuaFunction(lua_State* L, int index, const std::string& path) {
  if (!lua_isfunction(L, index)) {
    refuse(path, describe_value(L, index) + " where a function belongs");
  }
  function_ = LuaRef(L, index);
}

lua_State* LuaFunction::state() const {
  lua_State* L = function_.state();
  if (L == nullptr) throw Error(ErrorCode::internal, "a Lua function outlived its Lua state");
  return L;
}

void LuaFunction::call(int num_arguments, int num_results) const {
  lua_State* L = state();
  luaL_checkstack(L, 3 + num_results, "call from C++");
  function_.push(L);
  lua_insert(L, -1 - num_arguments);
  if (protected_call(L, num_arguments, num_results) != 0) throw_script_error(L);
}

void throw_script_error(lua_State* L) {
  const ErrorReport report = read_error(L, -1);
  unwrap_error(L);
  // A plain string gains code and traceback on its way; any other value passes as it is.
  std::shared_ptr<LuaRef> value;
  if (lua_type(L, -1) != LUA_TSTRING) value = std::make_shared<LuaRef>(L, -1);
  lua_pop(L, 1);
  throw ScriptError(named<ErrorCode>(report.code).value_or(ErrorCode::script), report.message,
                    report.where, report.code, report.traceback, std::move(value));
}

}  // namespace tessera::lua_kit
