#pragma once

#include <lua.hpp>

/// Fleets of named models as the library in Lua gets them.
namespace tessera::solver_lua {

/// price_fleet(options): what was found, as one table.
int price_fleet(lua_State* L);
/// replan_fleet(priced, asked, changes): likewise, for other demands and fewer nodes; `asked` are
/// the options of price_fleet.
int replan_fleet(lua_State* L);
void register_plan_fleet(lua_State* L);

}  // namespace tessera::solver_lua
