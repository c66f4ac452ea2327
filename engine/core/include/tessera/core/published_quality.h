#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/files.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/quality.h"

namespace tessera {

/// How a runtime holds the weights of a bitwidth: what its checkpoint is, and what that costs.
enum class WeightFormat {
  weights_only,      ///< activations stay in 16 bits; one scale per group of weights
  per_channel,       ///< the same with one scale per output channel (2023's GPTQ kernels)
  int8_activations,  ///< W8A8
  fp8_weights,       ///< FP8 weights, expanded to 16 bits as the activations are; here and below a
                     ///< scale per channel, and per token: static scales per tensor lose more
  fp8_activations    ///< FP8 weights and activations
};

template <>
inline constexpr auto kEnumNames<WeightFormat> =
    enum_names<WeightFormat>({{WeightFormat::weights_only, "weights_only"},
                              {WeightFormat::per_channel, "per_channel"},
                              {WeightFormat::int8_activations, "int8_activations"},
                              {WeightFormat::fp8_weights, "fp8_weights"},
                              {WeightFormat::fp8_activations, "fp8_activations"}});

/// What published measurements say of a model at these bitwidths (datasets/quality, fitted by
/// experiments/quality/fit_quality.lua). The model is recognised by its name, else by model type,
/// vocabulary and context; what nobody measured has the grade unknown and the widest band.
/// Bitwidths between those measured are interpolated (the logarithm of the loss over bits), those
/// below carry the last slope on, 9 to 15 bits lose a quarter per bit, 16 nothing.
/// @param formats of each bitwidth that the problem has, at least one; of several runtimes the one
/// that loses most counts
/// @throws Error{not_found, invalid_argument} naming the file and field
QualityLevels published_quality(const ModelShape& model,
                                const std::map<std::int32_t, std::vector<WeightFormat>>& formats,
                                std::string_view method, const DataFolders& folders);

/// How far sums of single layers' losses miss that of all together: a factor, 90 %.
double additivity_spread(const DataFolders& folders);

}  // namespace tessera
