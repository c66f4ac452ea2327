#pragma once

#include <lua.hpp>
#include <string>

namespace tessera::app {

/// The value at `index` as Lua source where possible, for the prompt: keys sorted, one line where
/// it fits in 100 columns, cut at 6 levels and 60 items a table, cycles marked.
std::string pretty(lua_State* L, int index);

}  // namespace tessera::app
