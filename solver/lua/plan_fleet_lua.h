#pragma once

#include <lua.hpp>

/// Fleets of named models as the library in Lua gets them.
namespace tessera::solver_lua {

/// price_fleet(options): what was found, as one table.
int price_fleet(lua_State* L);
/// replan_fleet(priced, asked, changes): likewise, for other demands and fewer nodes; `asked` are
/// the options of price_fleet.
int replan_fleet(lua_State* L);
/// restore_fleet(asked, solved, named): what replan_fleet takes, of a fleet that a file kept.
int restore_fleet(lua_State* L);
/// is_solved_fleet(thing)
int is_solved_fleet(lua_State* L);
/// cluster_table(cluster): what a file of it holds, which core.cluster_from_json reads.
int cluster_table(lua_State* L);
void register_plan_fleet(lua_State* L);

}  // namespace tessera::solver_lua
