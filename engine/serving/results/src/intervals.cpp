#include "intervals.h"

#include <algorithm>
#include <cmath>

namespace tessera::serving {

double student_t(std::size_t degrees_of_freedom) {
  static constexpr double table[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                     2.306,  2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
                                     2.131,  2.120, 2.110, 2.101, 2.093};
  return table[degrees_of_freedom - 1];
}

std::vector<SampleBatch> batches_of(const std::vector<double>& values) {
  const std::size_t n = values.size(), count = std::min(n, kBatches);
  std::vector<SampleBatch> batches(count);
  for (std::size_t b = 0; b < count; ++b) {
    for (std::size_t i = b * n / count; i < (b + 1) * n / count; ++i) {
      batches[b].weight += 1;
      batches[b].sum += values[i];
    }
  }
  return batches;
}

BatchMean mean_of(const std::vector<SampleBatch>& batches) {
  BatchMean result;
  double weight = 0, sum = 0;
  for (const SampleBatch& batch : batches) {
    weight += batch.weight;
    sum += batch.sum;
    if (batch.weight > 0) ++result.num_batches;
  }
  if (weight <= 0) return result;
  result.mean = sum / weight;
  if (result.num_batches < 2) return result;
  double squares = 0;  // of a ratio of sums: batches may differ in weight
  for (const SampleBatch& batch : batches) {
    const double off = batch.sum - batch.weight * result.mean;
    squares += off * off;
  }
  const auto count = static_cast<double>(result.num_batches);
  result.variance = count / (count - 1) * squares / (weight * weight);
  return result;
}

void set_mean(Distribution& d, const BatchMean& batches, double variance, double most_effective) {
  d.mean = batches.mean;
  d.standard_deviation = std::sqrt(variance);
  d.num_batches = static_cast<std::int64_t>(batches.num_batches);
  d.effective_n = most_effective;
  if (batches.num_batches < 2) return;
  const double half = student_t(batches.num_batches - 1) * std::sqrt(batches.variance);
  d.mean_low = batches.mean - half;
  d.mean_high = batches.mean + half;
  const bool each_alone = d.num_batches == d.n;
  if (!each_alone && variance < most_effective * batches.variance) {
    d.effective_n = std::max(1.0, variance / batches.variance);
  }
}

double effective_size(const std::vector<double>& values) {
  Distribution d;
  d.n = static_cast<std::int64_t>(values.size());
  const BatchMean batches = mean_of(batches_of(values));
  double squares = 0;
  for (const double value : values) squares += (value - batches.mean) * (value - batches.mean);
  const auto n = static_cast<double>(values.size());
  set_mean(d, batches, n > 0 ? squares / n : 0, n);
  return d.effective_n;
}

Interval wilson_interval(double share, double n) {
  constexpr double z = 1.959964;
  const double centre = (share + z * z / (2 * n)) / (1 + z * z / n);
  const double half =
      z / (1 + z * z / n) * std::sqrt(share * (1 - share) / n + z * z / (4 * n * n));
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

RankInterval quantile_ranks(std::int64_t n, double q) {
  RankInterval ranks;
  if (n < 1 || q <= 0 || q >= 1) return ranks;
  const auto count = static_cast<double>(n);
  // K, the number of values below the quantile, is binomial. What lies 9 standard deviations (and
  // 40 where the law is skewed) below the mean has less than 1e-14 of it.
  const double reach = 9 * std::sqrt(count * q * (1 - q)) + 40;
  auto k = static_cast<std::int64_t>(std::max(0.0, std::floor(count * q - reach)));
  const auto at = static_cast<double>(k);
  double term =
      std::exp(std::lgamma(count + 1) - std::lgamma(at + 1) - std::lgamma(count - at + 1) +
               at * std::log(q) + (count - at) * std::log1p(-q));
  double below = 0;  // P(K < k)
  for (; k <= n; ++k) {
    if (below <= .025 && k >= 1) ranks.low = k;  // P(X_(k) > quantile) = P(K < k)
    if (k >= 1 && below >= .975) {               // P(X_(k) <= quantile) = P(K >= k)
      ranks.high = k;
      break;
    }
    below += term;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1) * (q / (1 - q));
  }
  return ranks;
}

RankInterval data_ranks(std::int64_t n, double effective_n, double q) {
  const auto m = static_cast<std::int64_t>(std::min(effective_n, static_cast<double>(n)));
  RankInterval ranks = quantile_ranks(m, q);
  const double scale = static_cast<double>(n) / static_cast<double>(std::max<std::int64_t>(m, 1));
  const auto within = [n](double rank) {
    return std::clamp(static_cast<std::int64_t>(rank), std::int64_t{0}, n - 1);
  };
  if (ranks.low) ranks.low = within(std::floor(static_cast<double>(*ranks.low - 1) * scale));
  if (ranks.high) ranks.high = within(std::ceil(static_cast<double>(*ranks.high) * scale) - 1);
  return ranks;
}

}  // namespace tessera::serving
