#pragma once

#include <lua.hpp>
#include <memory>
#include <string>

#include "tessera/core/error.h"

namespace tessera::lua_kit {

/// Anchors one Lua value in the registry. Survives its state: once the state is closed it is empty.
class LuaRef {
 public:
  LuaRef() = default;
  /// Keeps the value at `index`.
  LuaRef(lua_State* L, int index);
  ~LuaRef();
  LuaRef(LuaRef&& other) noexcept;
  LuaRef& operator=(LuaRef&& other) noexcept;

  /// A state to push on: the running one, or the main one. nullptr when empty or closed.
  lua_State* state() const;
  /// Pushes the value on `L`, which must belong to the state that the value came from.
  void push(lua_State* L) const;

 private:
  struct Home;
  static std::shared_ptr<Home> home_of(lua_State* L);
  void release() noexcept;

  std::shared_ptr<Home> home_;
  int reference_ = LUA_NOREF;
};

/// A Lua error that crossed C++. `guarded` raises the same value again on the other side, so a
/// script's own error objects pass through the engine unchanged.
class ScriptError : public Error {
 public:
  ScriptError(ErrorCode code, const std::string& message, std::string where, std::string code_name,
              std::string traceback, std::shared_ptr<LuaRef> value)
      : Error(code, message, std::move(where)),
        code_name_(std::move(code_name)),
        traceback_(std::move(traceback)),
        value_(std::move(value)) {}

  /// The error object's `code`, also where it is none of ours ("infeasible").
  const std::string& code_name() const noexcept { return code_name_; }
  const std::string& traceback() const noexcept { return traceback_; }
  const LuaRef* value() const noexcept { return value_.get(); }

 private:
  std::string code_name_, traceback_;
  std::shared_ptr<LuaRef> value_;
};

/// A Lua function that C++ keeps and calls:
///
///     LuaFunction on_incumbent(L, -1);
///     lua_State* state = on_incumbent.state();
///     lua_pushnumber(state, objective);
///     on_incumbent.call(1, 0);
///
/// May outlive its state: `state()` and `call` then throw Error{internal}. Calls run on the thread
/// that is inside a guarded function (a coroutine, perhaps), otherwise on the main one.
class LuaFunction {
 public:
  /// @throws Error{invalid_argument} naming `path` unless the value is a function.
  LuaFunction(lua_State* L, int index, const std::string& path);

  lua_State* state() const;
  /// Calls with the `num_arguments` topmost values of `state()`, which are replaced by
  /// `num_results` results (the caller pops them; see StackGuard).
  /// @throws ScriptError with the Lua traceback; the stack is as it was below the arguments.
  void call(int num_arguments, int num_results) const;

 private:
  LuaRef function_;
};

/// Throws the ScriptError for the error object on top of the stack, which is popped.
[[noreturn]] void throw_script_error(lua_State* L);

}  // namespace tessera::lua_kit
