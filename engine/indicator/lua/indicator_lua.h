#pragma once

#include <lua.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tessera/core/option.h"
#include "tessera/indicator/indicator.h"

namespace tessera::indicator_lua {

/// An indicator object, the path of a file, or a table omega[layer][bitwidth] (layer 1-based).
/// Absent: the constant indicator. `model` picks rows in files that hold several; `num_layers` and
/// `bitwidths` size what is generated.
std::shared_ptr<const Indicator> indicator_argument(lua_State* L, int index,
                                                    const std::string& path,
                                                    const std::string& model,
                                                    std::size_t num_layers,
                                                    const std::vector<std::int32_t>& bitwidths);

/// What ts.indicator takes; `tessera indicator` takes its flags from here.
const OptionTable& indicator_options();

/// Makes `require "tessera.indicator"` work. Needs the core's environment.
void register_indicator(lua_State* L);

}  // namespace tessera::indicator_lua
