#pragma once

#include <lua.hpp>

#include "tessera/core/option.h"

/// Fleets of named models as the library in Lua gets them.
namespace tessera::solver_lua {

const OptionTable& plan_fleet_options();
/// price_fleet(options): what was found, as one table.
int price_fleet(lua_State* L);
void register_plan_fleet(lua_State* L);

}  // namespace tessera::solver_lua
