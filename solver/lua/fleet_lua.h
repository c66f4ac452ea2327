#pragma once

#include <functional>
#include <lua.hpp>
#include <vector>

#include "tessera/core/option.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/object.h"
#include "tessera/solver/fleet/solved_fleet.h"

namespace tessera::solver_lua {

const OptionTable& solve_fleet_options();
/// solve_fleet(options): a fleet, or nil and why.
int solve_fleet(lua_State* L);
/// Of ts.check: true, or nil and why.
int check_solved_fleet(lua_State* L);
/// round({ copies of each column }, columns): as many numbers. Empty where there is no such option.
std::function<std::vector<double>(const std::vector<double>&, const solver::FleetInstance&)>
round_of(lua_State* L, const lua_kit::Options& options);
void register_fleet(lua_State* L);

}  // namespace tessera::solver_lua

namespace tessera::lua_kit {

template <>
const ObjectType<solver::SolvedFleet>& object_type<solver::SolvedFleet>();

}  // namespace tessera::lua_kit
