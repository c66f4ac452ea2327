#pragma once

#include <lua.hpp>

#include "tessera/lua_kit/annotations.h"

namespace tessera::app {

/// Registers the C modules of every engine part for `require`, and their cards for `help`.
void open_bindings(lua_State* L, lua_kit::Reference& reference);

}  // namespace tessera::app
