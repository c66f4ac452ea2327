#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/core/model_shape.h"
#include "tessera/core/option.h"
#include "tessera/lua_kit/args.h"

/// The options `plan` and `bitwidths`, by which layers get bitwidths; for whoever quantises a
/// model.
namespace tessera::quant_lua {

std::vector<OptionSpec> layer_bitwidth_options();

/// A bitwidth for each layer, from the one of both options that is given: 3 to 16 bits.
/// @param num_layers asked for where one number stands for all layers
/// @throws Error{invalid_argument} unless exactly one is given
std::vector<std::int32_t> layer_bitwidths(const lua_kit::Options& options,
                                          const std::function<std::int64_t()>& num_layers);

/// The model that the option `plan` was made for; nullptr for a table, or a plan of an instance.
std::shared_ptr<const ModelShape> model_of_plan(const lua_kit::Options& options);

}  // namespace tessera::quant_lua
