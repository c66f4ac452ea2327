#pragma once

#include <lua.hpp>

namespace tessera::results_lua {

/// Makes `require "tessera.store"` work. Needs the core's environment.
void register_results(lua_State* L);

}  // namespace tessera::results_lua
