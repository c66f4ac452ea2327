#pragma once

#include <exception>
#include <lua.hpp>
#include <string>
#include <string_view>

/// The border between Lua and C++: every binding is registered as `guarded<function>`, which turns
/// C++ exceptions into Lua error objects. LuaJIT itself would keep only the text "C++ exception".
///
/// Lua errors cross C++ frames by the platform's unwinder, so destructors run; what they must never
/// meet is `catch (...)` (swallows them) or a `noexcept` function (aborts).
namespace tessera::lua_kit {

/// Metatable name of error objects: tables with the fields `code`, `message`, `where` (path of the
/// option or file concerned), `at` (script position), `cause` (the C++ exception behind it) and
/// `traceback`; absent where unknown. `tostring` gives the message.
inline constexpr const char* kErrorType = "tessera.Error";

/// Everything known about an error, readable outside Lua.
struct ErrorReport {
  std::string code = {};  ///< "invalid_argument", ...; "script" for what Lua code raised
  std::string message = {};
  std::string where = {};
  std::string at = {};
  std::string cause = {};
  std::string traceback = {};
  std::string constraint = {};  ///< of `infeasible`: what no plan can meet
};

/// Errors raised from scripts in `folder` name the line of the code that called into it as `at`.
void set_library_folder(lua_State* L, std::string_view folder);

/// Pushes an error object; also the `why` of functions that return `nil, why`.
void push_error(lua_State* L, std::string_view code, std::string_view message,
                std::string_view where = {});

/// Pushes an error object and raises it. No C++ object may be alive in the caller.
int raise(lua_State* L, const char* code, const char* message, const char* where = "");

/// Reads whatever a failed `lua_pcall` left at `index`: error objects, strings, any other value.
/// Never raises: a failing `__tostring` becomes part of the message.
ErrorReport read_error(lua_State* L, int index);

/// Replaces what a failed `protected_call` left on top by the value that the script raised.
void unwrap_error(lua_State* L);

/// Message handler for `lua_pcall`: keeps the traceback. Push it with `lua_pushcfunction`.
int traceback_handler(lua_State* L);

/// `lua_pcall` with `traceback_handler` for the function below `num_arguments` arguments. On
/// failure the error is on top, for `read_error`. @throws Error{script} where calls from C++ into
/// Lua are nested too deeply.
int protected_call(lua_State* L, int num_arguments, int num_results);

/// The Lua thread that runs the innermost guarded function on this thread; nullptr outside.
lua_State* running_state();

/// Restores the height of the Lua stack when the scope ends.
class StackGuard {
 public:
  explicit StackGuard(lua_State* L) : L_(L), top_(lua_gettop(L)) {}
  ~StackGuard() { lua_settop(L_, top_); }
  StackGuard(const StackGuard&) = delete;
  StackGuard& operator=(const StackGuard&) = delete;

 private:
  lua_State* L_;
  int top_;
};

namespace detail {

/// Pushes the error object for a caught exception.
void push_exception(lua_State* L, const std::exception& exception);

class RunningState {
 public:
  explicit RunningState(lua_State* L);
  ~RunningState();
  RunningState(const RunningState&) = delete;
  RunningState& operator=(const RunningState&) = delete;

 private:
  lua_State* previous_;
};

}  // namespace detail

/// The `lua_CFunction` to register for `F`: `{"plan", guarded<plan>}`.
template <int (*F)(lua_State*)>
int guarded(lua_State* L) {
  try {
    detail::RunningState running(L);
    return F(L);
  } catch (const std::exception& exception) {
    detail::push_exception(L, exception);
  }
  return lua_error(L);  // outside the handler: nothing of C++ is alive here
}

}  // namespace tessera::lua_kit
