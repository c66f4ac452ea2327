#include "tessera/lua_kit/nesting.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>

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

constexpr int kMaxCallsIntoLua = 1000;
thread_local int num_calls_into_lua = 0;
// Of coroutines that resume each other; a generator that walks a tree nests as deep as the tree.
constexpr int kMaxCoroutines = 40'000;
thread_local int num_coroutines = 0;
constexpr const char* kCoroutines = "coroutines inside each other";

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

[[noreturn]] void refuse(lua_State* L, const std::string& how_deep) {
  lua_Debug frame{};
  const bool known = lua_getstack(L, 0, &frame) != 0 && lua_getinfo(L, "n", &frame) != 0 &&
                     frame.name != nullptr && *frame.name != '\0';
  throw Error(ErrorCode::script,
              fmt::format("calls are nested too deeply{}: {}; does a callback call, without end, "
                          "what calls it?",
                          known ? fmt::format(" at '{}'", frame.name) : "", how_deep));
}

// One more of what is counted, while it lives.
class Counted {
 public:
  Counted(lua_State* L, int& count, int most, const char* of_what) : count_(count) {
    if (count >= most) refuse(L, fmt::format("{} {}", most, of_what));
    ++count_;
  }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  int& count_;
};

// Lua's own functions, upvalue 1 of these. Their messages stay as they are, which name the function
// as the caller wrote it and the line that it was called from.

int substitute(lua_State* L) { return lua_tocfunction(L, lua_upvalueindex(1))(L); }

void call_original(lua_State* L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
}

int resume(lua_State* L) {
  if (!lua_isthread(L, 1)) return luaL_argerror(L, 1, "coroutine expected");
  const Counted coroutine(L, num_coroutines, kMaxCoroutines, kCoroutines);
  call_original(L);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

int resume_wrapped(lua_State* L) {
  int status = 0;
  {
    const Counted coroutine(L, num_coroutines, kMaxCoroutines, kCoroutines);
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
  refuse(L, fmt::format("{:.0f} MiB of the C stack are in use",
                        static_cast<double>(stack.top - here()) / (1 << 20)));
}

CallIntoLua::CallIntoLua(lua_State* L) {
  if (num_calls_into_lua >= kMaxCallsIntoLua) {
    refuse(L, fmt::format("{} calls from the engine into Lua", kMaxCallsIntoLua));
  }
  ++num_calls_into_lua;
}
CallIntoLua::~CallIntoLua() { --num_calls_into_lua; }

void guard_recursion(lua_State* L) {
  replace(L, "string", "gsub", guarded<substitute>);
  replace(L, "coroutine", "resume", guarded<resume>);
  replace(L, "coroutine", "wrap", guarded<wrap>);
}

}  // namespace tessera::lua_kit
