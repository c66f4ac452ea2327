#include "tessera/lua_kit/module.h"

#include "tessera/lua_kit/value.h"

namespace tessera::lua_kit {

void set_functions(lua_State* L, const std::vector<FunctionEntry>& functions) {
  for (const FunctionEntry& entry : functions) {
    lua_pushcfunction(L, entry.function);
    lua_setfield(L, -2, entry.name);
  }
}

void register_module(lua_State* L, const char* name, const std::vector<FunctionEntry>& functions) {
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "preload");
  lua_createtable(L, 0, static_cast<int>(functions.size()));
  set_functions(L, functions);
  lua_pushcclosure(
      L,
      [](lua_State* state) -> int {
        lua_pushvalue(state, lua_upvalueindex(1));
        return 1;
      },
      1);
  lua_setfield(L, -2, name);
  lua_pop(L, 2);
}

}  // namespace tessera::lua_kit
