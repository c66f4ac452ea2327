#pragma once

#include <lua.hpp>
#include <string>

#include "tessera/results/store.h"

/// What is stored, as Lua tables. All push one value, or set a field of the table on top.
namespace tessera::results_lua {

void set_text(lua_State* L, const char* field, const std::string& text);
void set_json(lua_State* L, const char* field, const Json& value);
void set_number(lua_State* L, const char* field, double value);

/// All of it but the script's text.
void push_run(lua_State* L, const results::Run& run);

/// The point under `point`, what the script returned beside it.
void push_row(lua_State* L, const results::Row& row);

/// Where the row comes from. Rows that come from where their run comes from share its tables, which
/// are at the indices `machine` and `machine` + 1.
void push_meta(lua_State* L, const results::Row& row, const results::Origin& of_run, int machine);

}  // namespace tessera::results_lua
