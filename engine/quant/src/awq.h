#pragma once

#include <vector>

#include "tessera/quant/quantise.h"

namespace tessera::quant {

/// Scales of input channels for linears that share their input, by AWQ (Lin et al., MLSys 2024,
/// section 3.2): s = abs_mean^alpha, divided by sqrt(max s * min s), for the alpha of 0, 0.05, ...,
/// 1 with the least output error of W diag(s) as the scheme rounds it. alpha = 0 is
/// round-to-nearest, so the error is never above that one's.
struct AwqScales {
  std::vector<float> scales;  ///< [in_features]
  double alpha = 0;
  double error = 0;      ///< output error with these scales, all linears together
  double rtn_error = 0;  ///< with none
};
AwqScales search_awq_scales(const std::vector<MatrixView>& weights,
                            const std::vector<Scheme>& schemes, const LinearStatistics& inputs,
                            int num_threads);

/// Round-to-nearest of W diag(s).
Quantised quantise_scaled(MatrixView weight, const std::vector<float>& scales, const Scheme& scheme,
                          int num_threads);

}  // namespace tessera::quant
