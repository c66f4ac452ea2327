#pragma once

#include <map>
#include <string>

#include "host.h"

namespace tessera::app {

/// `tessera plan`: checks the flags and calls `require("tessera.cli").plan(options)`, which prints
/// the plan (or sets the JSON result) and returns it, or nil and why.
ExitStatus run_plan(Host& host, const std::map<std::string, std::string>& flags);

}  // namespace tessera::app
