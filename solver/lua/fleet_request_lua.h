#pragma once

#include <cstddef>
#include <lua.hpp>
#include <string>
#include <vector>

#include "tessera/core/option.h"
#include "tessera/lua_kit/args.h"
#include "tessera/solver/fleet_pricing/plan_fleet.h"

/// What is asked of fleets of named models.
namespace tessera::solver_lua {

const OptionTable& plan_fleet_options();
const OptionTable& replan_fleet_options();
solver::FleetRequest fleet_request_at(lua_State* L, const lua_kit::Options& options);
/// What runs in a fleet: its replicas, by names.
std::vector<solver::RunningReplicas> running_at(lua_State* L, int index, const std::string& path);
void register_fleet_request(lua_State* L);

}  // namespace tessera::solver_lua
