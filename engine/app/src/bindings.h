#pragma once

#include <lua.hpp>

#include "core_lua.h"
#include "tessera/workers/channel.h"

namespace tessera::app {

/// Registers the C modules of every engine part for `require`, and their cards for `help`.
/// `environment` outlives the state, and so does `channel`, a worker process's line to its pool.
void open_bindings(lua_State* L, core_lua::Environment& environment, workers::Channel* channel);

}  // namespace tessera::app
