#pragma once

#include <lua.hpp>

#include "tessera/serving/deployment.h"

/// Schedulers that are Lua functions.
namespace tessera::serving_lua {

/// Makes the engine's schedulers, and those that scripts registered. Each is of one run: a run in
/// another thread needs a state of its own.
serving::MakeScheduler scheduler_maker(lua_State* L);

/// What scripts/tessera/plugins/scheduler_view.lua needs of the engine: the fields { name =, doc =
/// } of `request` and of `view`, in the order of their records; and the error that a call kept.
int scheduler_fields(lua_State* L);
int scheduler_error(lua_State* L);

}  // namespace tessera::serving_lua
