#pragma once

#include "tessera/core/option.h"

namespace tessera::app {

/// Options of `tessera plan`: flags are the names with dashes (`--prompt-tokens`). They reach Lua
/// as one table, `require("tessera.cli").plan(options)`.
const OptionTable& plan_options();

}  // namespace tessera::app
