#pragma once

#include <lua.hpp>

#include "core_lua.h"

namespace tessera::app {

/// Registers the C modules of every engine part for `require`, and their cards for `help`.
/// `environment` outlives the state.
void open_bindings(lua_State* L, core_lua::Environment& environment);

}  // namespace tessera::app
