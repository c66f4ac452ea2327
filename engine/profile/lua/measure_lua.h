#pragma once

#include <lua.hpp>

#include "tessera/core/option.h"

namespace tessera::profile_lua {

/// Of ts.measure_profile, of which `tessera profile` takes its flags.
const OptionTable& measure_options();

/// Makes `require "tessera.measure"` work: what scripts/tessera/devices measures this machine with.
/// Needs the core's environment.
void register_profile(lua_State* L);

}  // namespace tessera::profile_lua
