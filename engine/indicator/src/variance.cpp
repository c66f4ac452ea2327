#include "tessera/indicator/variance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/error.h"

namespace tessera::indicator {
namespace {

void check_moments(std::span<const float> values, std::int64_t in_features, const char* what,
                   double low) {
  if (values.size() != static_cast<std::size_t>(in_features)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} inputs have a {}, the operator has {} input features",
                            values.size(), what, in_features),
                "statistics");
  }
  for (std::size_t j = 0; j < values.size(); ++j) {
    if (std::isfinite(values[j]) && values[j] >= low) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the {} of input feature {} is {}; a finite number{} belongs here",
                            what, j, values[j], low == 0 ? " >= 0" : ""),
                "statistics");
  }
}

}  // namespace

std::vector<double> input_sums(const InputMoments& input, std::int64_t in_features,
                               kernels::Rounding rounding) {
  const bool known = !input.mean.empty() || !input.variance.empty();
  if (known) {
    check_moments(input.variance, in_features, "variance", 0);
    check_moments(input.mean, in_features, "mean", -HUGE_VAL);
  }
  std::vector<double> sums(static_cast<std::size_t>(in_features) + 1);
  for (std::size_t j = 0; j + 1 < sums.size(); ++j) {
    const double mean = known ? input.mean[j] : 0, variance = known ? input.variance[j] : 1;
    const double g =
        rounding == kernels::Rounding::stochastic ? (mean * mean + variance) / 6 : variance / 4;
    sums[j + 1] = sums[j] + g;
  }
  return sums;
}

double num_levels(int bitwidth, bool symmetric, StepForm form) {
  return std::ldexp(1.0, symmetric ? bitwidth - 1 : bitwidth) -
         (form == StepForm::splitquant ? 1 : 0);
}

}  // namespace tessera::indicator
