#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::test {

/// Pearson's statistic of counts against probabilities. A count where the probability is 0 makes it
/// infinite; cells with neither are left out.
inline double chi_square(const std::vector<std::int64_t>& counts,
                         const std::vector<double>& probabilities) {
  double num_draws = 0, sum = 0;
  for (const std::int64_t count : counts) num_draws += static_cast<double>(count);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = num_draws * probabilities[i];
    const double off = static_cast<double>(counts[i]) - expected;
    if (expected > 0 || off != 0) sum += off * off / expected;
  }
  return sum;
}

/// What a right generator exceeds in less than one of a million seeds: the quantile 1 - 1e-6 of the
/// chi-square distribution by Wilson and Hilferty's approximation, which is above it there (15 %
/// for 1 degree of freedom, 10 % for 2, 5 % for 4).
inline double chi_square_bound(std::size_t degrees_of_freedom) {
  const double k = static_cast<double>(degrees_of_freedom);
  const double z = 4.753424;  // of the normal distribution
  return k * std::pow(1 - 2 / (9 * k) + z * std::sqrt(2 / (9 * k)), 3);
}

}  // namespace tessera::test
