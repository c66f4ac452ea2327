#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tessera/quant/quantise.h"
#include "tessera/weights/weights.h"

// Scales of input channels that the norm before a linear takes in: (x / s) (W diag(s))^T = x W^T.
namespace tessera::quant {

/// Linears of a layer that read the output of one norm. Nothing else does but the router of a
/// mixture of experts, which stays in 16 bits.
struct Fold {
  std::vector<std::string> linears;  ///< as LinearShape names them
  std::string norm;                  ///< beneath the layer: "input_layernorm"
  std::string router = "";           ///< beneath the layer: "mlp.gate"; "" for none
  float norm_offset = 0;             ///< added to the stored weight when the norm runs: Gemma's 1
};

/// @throws Error{unsupported} for a family whose norms are not known, or that has its norms
/// elsewhere (OPT-350m)
const std::vector<Fold>& folds_of(const std::string& family, const Json& config);

/// Contents that take the place of a tensor's own.
using Replaced = std::map<std::string, std::vector<std::byte>>;

/// Divides the norm of a fold (weight, and bias where it has one) by the scales, multiplies the
/// columns of the router with them, and stores the results in their own types.
/// @param layer "model.layers.3."
/// @return the scales that the rounded norm really gives; 1 where a channel cannot be scaled
std::vector<float> fold_scales(const weights::Weights& model, const std::string& layer,
                               const Fold& fold, const std::vector<float>& scales,
                               Replaced& replaced);

/// SmoothQuant's scales (Xiao et al., ICML 2023, eq. (4)): s = max|x|^alpha / max|w|^(1 - alpha)
/// with alpha = 0.5, the larger weight of all linears that share the input.
std::vector<float> smooth_scales(const std::vector<MatrixView>& weights,
                                 const LinearStatistics& inputs);

}  // namespace tessera::quant
