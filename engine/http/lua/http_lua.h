#pragma once

#include <lua.hpp>

#include "tessera/core/option.h"

/// The server as `tessera serve` sees it. Nothing here loads its module before it is asked for.
namespace tessera::http_lua {

/// Where it listens and what it takes, as flags.
const OptionTable& server_options();

/// Makes `require "tessera.http"` work. Needs the core's environment.
void register_http(lua_State* L);

}  // namespace tessera::http_lua
