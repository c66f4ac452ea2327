#pragma once

#include <lua.hpp>
#include <vector>

namespace tessera::lua_kit {

struct FunctionEntry {
  const char* name;
  lua_CFunction function;  ///< always `guarded<...>`
};

/// Sets `functions` as fields of the table on top of the stack.
void set_functions(lua_State* L, const std::vector<FunctionEntry>& functions);

/// Makes `require(name)` return one table with these functions.
void register_module(lua_State* L, const char* name, const std::vector<FunctionEntry>& functions);

}  // namespace tessera::lua_kit
