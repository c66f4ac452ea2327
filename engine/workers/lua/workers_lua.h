#pragma once

#include <lua.hpp>
#include <string>

#include "tessera/workers/channel.h"

/// Worker processes as the library sees them.
namespace tessera::workers_lua {

/// Makes `require "tessera.workers"` work. It has `start { jobs, setup, time_limit_s, memory_bytes }`
/// (a pool of processes of the program `executable`) and `machine_memory_bytes()`. In a worker
/// process, `require "tessera.workers.channel"` is its line to the pool: `receive()` (id and text, or
/// nothing when the pool is gone), `ready()` and `answer(id, text, last)`.
///
/// A pool has `submit(id, text)`, `wait(timeout_s)` (a list of { id, outcome, text, message, log,
/// duration_s }), `withdraw()` (how many items were forgotten), `num_open()` and `close()`.
void register_workers(lua_State* L, const std::string& executable, workers::Channel* channel);

}  // namespace tessera::workers_lua
