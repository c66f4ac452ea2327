#pragma once

#include <lua.hpp>

/// How deep calls may be nested. Lua counts the slots of its own stack and raises "stack overflow".
/// The C stack, from which string.gsub, coroutines and the engine call back into Lua, nobody
/// counts, and its end is the end of the process.
namespace tessera::lua_kit {

/// Gives the main thread more room than systems do (8 MiB), as far as the hard limit allows. Call
/// once, early in main(); other threads get no more than they would have had.
void raise_stack_limit();

/// What every guarded function asks before it runs. A quarter of the stack is kept for code that
/// does not ask.
/// @throws Error{script} "calls are nested too deeply ..." where no more is left
void check_nesting(lua_State* L);

/// What is counted because it fills memory or takes long before the stack is full.
enum class Nested {
  calls_into_lua,  ///< from C++: each holds what its caller has made, a plan or a search; 1,000
  coroutines       ///< that resume each other; a generator nests as deep as its tree; 40,000
};

/// One more of them on this thread, while it lives.
class NestedCall {
 public:
  /// @throws Error{script} "calls are nested too deeply ..." beyond the number above
  NestedCall(lua_State* L, Nested what);
  ~NestedCall();
  NestedCall(const NestedCall&) = delete;
  NestedCall& operator=(const NestedCall&) = delete;

 private:
  int& count_;
};

/// Makes string.gsub, coroutine.resume and what coroutine.wrap returns ask as well: they call Lua
/// from C.
void guard_recursion(lua_State* L);

}  // namespace tessera::lua_kit
