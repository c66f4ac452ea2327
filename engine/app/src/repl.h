#pragma once

#include "host.h"

namespace tessera::app {

/// `tessera repl`: reads Lua, prints values. On a terminal with editing, history and completion;
/// from a pipe without any prompt. Errors do not end it; Ctrl-C goes back to the prompt; Ctrl-D
/// ends it. `ts` is the Lua library; `help(topic or value)` explains.
ExitStatus run_repl(Host& host);

}  // namespace tessera::app
