#include "awq.h"

#include <algorithm>
#include <cmath>

#include "rtn.h"

namespace tessera::quant {
namespace {

constexpr int kSteps = 20;  // of alpha, as in the authors' code

std::vector<float> scales_of(const Eigen::VectorXf& abs_mean, double alpha) {
  std::vector<float> scales;
  double low = 1e300, high = 0;
  for (const float x : abs_mean) {
    // A channel that calibration never met has no say; 1e-4 is the authors' floor.
    const double s = std::max(std::pow(static_cast<double>(x), alpha), 1e-4);
    low = std::min(low, s);
    high = std::max(high, s);
    scales.push_back(static_cast<float>(s));
  }
  const auto middle = static_cast<float>(std::sqrt(low * high));
  for (float& s : scales) s /= middle;
  return scales;
}

}  // namespace

Quantised quantise_scaled(MatrixView weight, const std::vector<float>& scales, const Scheme& scheme,
                          int num_threads) {
  std::vector<float> scaled(static_cast<std::size_t>(weight.rows * weight.columns));
  for (std::size_t i = 0; i < scaled.size(); ++i)
    scaled[i] = weight.data[i] * scales[i % scales.size()];
  Quantised out =
      round_to_nearest({scaled.data(), weight.rows, weight.columns}, scheme, num_threads);
  out.input_scales = scales;
  return out;
}

AwqScales search_awq_scales(const std::vector<MatrixView>& weights,
                            const std::vector<Scheme>& schemes, const LinearStatistics& inputs,
                            int num_threads) {
  AwqScales best;
  for (int step = 0; step <= kSteps; ++step) {
    const double alpha = static_cast<double>(step) / kSteps;
    std::vector<float> scales = scales_of(inputs.abs_mean, alpha);
    double error = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      error += output_error(weights[i],
                            quantise_scaled(weights[i], scales, schemes[i], num_threads), inputs);
    }
    if (step == 0) best.rtn_error = error;
    if (step == 0 || error < best.error) {
      best.scales = std::move(scales);
      best.alpha = alpha;
      best.error = error;
    }
  }
  return best;
}

}  // namespace tessera::quant
