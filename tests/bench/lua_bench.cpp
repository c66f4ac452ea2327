// What a call from Lua into a guarded C++ function costs, beside a bare one.
#include <benchmark/benchmark.h>

#include <lua.hpp>
#include <memory>

#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"

namespace tessera {
namespace {

constexpr int kCalls = 100000;

int increment(lua_State* L) {
  lua_pushnumber(L, lua_tonumber(L, 1) + 1);
  return 1;
}

int checked_increment(lua_State* L) {
  lua_pushnumber(L, static_cast<double>(lua_kit::check_integer(L, 1, "value", 0, 1e9)) + 1);
  return 1;
}

void run(benchmark::State& state, lua_CFunction function) {
  const std::unique_ptr<lua_State, decltype(&lua_close)> owner(luaL_newstate(), &lua_close);
  lua_State* L = owner.get();
  luaL_openlibs(L);
  lua_pushcfunction(L, function);
  lua_setglobal(L, "increment");
  const std::string code = "local f, sum = increment, 0 for i = 1, " + std::to_string(kCalls) +
                           " do sum = f(sum) end return sum";
  if (luaL_loadstring(L, code.c_str()) != 0) return state.SkipWithError(lua_tostring(L, -1));
  for (auto _ : state) {
    lua_pushvalue(L, 1);
    if (lua_pcall(L, 0, 1, 0) != 0 || lua_tonumber(L, -1) != kCalls) {
      state.SkipWithError("wrong sum");
      break;
    }
    lua_pop(L, 1);
  }
  state.SetItemsProcessed(state.iterations() * kCalls);
  state.counters["per_call"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kCalls,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void BM_LuaBareCall(benchmark::State& state) { run(state, increment); }
BENCHMARK(BM_LuaBareCall)->Unit(benchmark::kMillisecond);

void BM_LuaGuardedCall(benchmark::State& state) { run(state, lua_kit::guarded<increment>); }
BENCHMARK(BM_LuaGuardedCall)->Unit(benchmark::kMillisecond);

void BM_LuaGuardedCheckedCall(benchmark::State& state) {
  run(state, lua_kit::guarded<checked_increment>);
}
BENCHMARK(BM_LuaGuardedCheckedCall)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tessera
