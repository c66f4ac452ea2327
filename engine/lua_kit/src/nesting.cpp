#include "tessera/lua_kit/nesting.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "tessera/core/error.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/table.h"

namespace tessera::lua_kit {
namespace {

// Below the 128 MiB that Linux keeps free beneath the main thread's stack whatever the limit was at
// its start, and no more than AddressSanitizer clears when an error is thrown.
constexpr std::size_t kStackBytes = 64u << 20;
// What systems give a thread. Programs that this one starts inherit the raised limit, and would
// give as much to each of theirs.
constexpr std::size_t kThreadStackBytes = 8u << 20;

// Of one thread: the stack grows down from `top`, and to `lowest` at most.
struct Stack {
  const char* top = nullptr;
  const char* lowest = nullptr;

  void set(const char* end, std::size_t size) {
    top = end;
    lowest = end - size + size / 4;
  }
};
thread_local Stack stack;

struct Limit {
  int most;
  const char* of_what;
};
constexpr Limit kLimits[] = {{1000, "calls from the engine into Lua"},
                             {40'000, "coroutines inside each other"}};
thread_local int num_nested[std::size(kLimits)] = {};

const char* here() { return static_cast<const char*>(__builtin_frame_address(0)); }

// Of a thread that is not the main one, or of a program that did not raise its limit.
void look_up_stack() {
  pthread_attr_t attributes;
  void* address = nullptr;
  std::size_t size = 0;
  if (::pthread_getattr_np(::pthread_self(), &attributes) == 0) {
    ::pthread_attr_getstack(&attributes, &address, &size);
    ::pthread_attr_destroy(&attributes);
  }
  if (address != nullptr) {
    stack.set(static_cast<const char*>(address) + size, size);
  } else {
    stack.set(here(), 1u << 20);
  }
}

void limit_thread_stacks() {
  pthread_attr_t attributes;
  std::size_t size = 0;
  if (::pthread_getattr_default_np(&attributes) != 0) return;
  ::pthread_attr_getstacksize(&attributes, &size);
  if (size > kThreadStackBytes) {
    ::pthread_attr_setstacksize(&attributes, kThreadStackBytes);
    ::pthread_setattr_default_np(&attributes);
  }
  ::pthread_attr_destroy(&attributes);
}

[[noreturn]] void refuse_deeper(lua_State* L, const std::string& how_deep) {
  lua_Debug frame{};
  const bool known = lua_getstack(L, 0, &frame) != 0 && lua_getinfo(L, "n", &frame) != 0 &&
                     frame.name != nullptr && *frame.name != '\0';
  throw Error(ErrorCode::script,
              fmt::format("calls are nested too deeply{}: {}; does a callback call, without end, "
                          "what calls it?",
                          known ? fmt::format(" at '{}'", frame.name) : "", how_deep));
}

// Lua's own functions, upvalue 1 of these. Their messages stay as they are, which name the function
// as the caller wrote it and the line that it was called from.

int substitute(lua_State* L) { return lua_tocfunction(L, lua_upvalueindex(1))(L); }

void call_original(lua_State* L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
}

int resume(lua_State* L) {
  if (!lua_isthread(L, 1)) return luaL_argerror(L, 1, "coroutine expected");
  const NestedCall coroutine(L, Nested::coroutines);
  call_original(L);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

int resume_wrapped(lua_State* L) {
  int status = 0;
  {
    const NestedCall coroutine(L, Nested::coroutines);
    call_original(L);
    status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  }
  if (status == 0) return lua_gettop(L);
  if (lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

int wrap(lua_State* L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  call_original(L);
  lua_call(L, 1, 1);
  lua_pushcclosure(L, guarded<resume_wrapped>, 1);
  return 1;
}

void replace(lua_State* L, const char* library, const char* name, lua_CFunction by) {
  const StackGuard guard(L);
  lua_getglobal(L, library);
  push_field(L, -1, name, library);
  lua_pushcclosure(L, by, 1);
  lua_setfield(L, -2, name);
}

}  // namespace

void raise_stack_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0) return;
  const rlim_t wanted =
      std::max(limit.rlim_cur, std::min(limit.rlim_max, static_cast<rlim_t>(kStackBytes)));
  const rlimit raised{wanted, limit.rlim_max};
  if (::setrlimit(RLIMIT_STACK, &raised) != 0) return;
  stack.set(here(), static_cast<std::size_t>(std::min(wanted, static_cast<rlim_t>(kStackBytes))));
  limit_thread_stacks();
}

void check_nesting(lua_State* L) {
  if (stack.top == nullptr) look_up_stack();
  if (here() > stack.lowest) return;
  refuse_deeper(L, fmt::format("{:.0f} MiB of the C stack are in use",
                               static_cast<double>(stack.top - here()) / (1 << 20)));
}

NestedCall::NestedCall(lua_State* L, Nested what) : count_(num_nested[static_cast<int>(what)]) {
  const Limit& limit = kLimits[static_cast<int>(what)];
  if (count_ >= limit.most) refuse_deeper(L, fmt::format("{} {}", limit.most, limit.of_what));
  ++count_;
}
NestedCall::~NestedCall() { --count_; }

void guard_recursion(lua_State* L) {
  replace(L, "string", "gsub", guarded<substitute>);
  replace(L, "coroutine", "resume", guarded<resume>);
  replace(L, "coroutine", "wrap", guarded<wrap>);
}

}  // namespace tessera::lua_kit
