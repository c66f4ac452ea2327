#pragma once

#include "command_line.h"
#include "host.h"
#include "verbs.h"

namespace tessera::app {

/// Checks the flags and calls the verb's `main`.
/// @throws UsageError
ExitStatus run_lua_verb(Host& host, const LuaVerb& verb, const Command& command);

/// `tessera run`: every file in turn; the sweep of one that returns an experiment. A failed file
/// ends it, a failed experiment does not; the worst status counts.
/// @throws UsageError
ExitStatus run_files(Host& host, const Command& command);

}  // namespace tessera::app
