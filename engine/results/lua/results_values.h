#pragma once

#include <lua.hpp>

#include "tessera/results/store.h"

/// What is stored, as Lua tables. All push one value.
namespace tessera::results_lua {

/// All of it but the script's text.
void push_run(lua_State* L, const results::Run& run);

/// The point under `point`, what the script returned beside it.
void push_row(lua_State* L, const results::Row& row);

/// Where the row comes from. Rows that come from where their run comes from share its tables, which
/// are at the indices `machine` and `machine` + 1.
void push_meta(lua_State* L, const results::Row& row, const results::Origin& of_run, int machine);

}  // namespace tessera::results_lua
