#pragma once

#include <lua.hpp>
#include <memory>

#include "tessera/run/module.h"

namespace tessera::run_lua {

/// What run.faults has of one that was lost.
void push_fault(lua_State* L, const run::Fault& fault);
/// A table of what came of a run, and the object that traces as its `measured`.
void push_executed(lua_State* L, std::shared_ptr<const run::Executed> executed);

}  // namespace tessera::run_lua
