#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/indicator/indicator.h"
#include "tessera/lua_kit/args.h"

/// What ts.indicator does with its options.
namespace tessera::indicator_lua {

/// Whether a kind takes the weights of the model, not its name.
bool is_made_from_weights(const std::string& kind);

/// Ascending, each once.
/// @throws Error{invalid_argument} for none
std::vector<std::int32_t> bitwidths_of(const lua_kit::Options& options);

/// Layers of the option `model`: an object, a name, or the path of weights.
std::int64_t num_layers_of(const lua_kit::Options& options);

/// The indicator of a kind that takes weights; Ctrl-C ends it after a layer.
Indicator make_from_weights(const lua_kit::Options& options);

}  // namespace tessera::indicator_lua
