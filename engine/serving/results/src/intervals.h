#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/serving/distribution.h"

namespace tessera::serving {

inline constexpr std::size_t kBatches = 20;  // 10 to 30: Schmeiser, Operations Research 30 (1982)

/// Student's t at 97.5 % for up to kBatches - 1 degrees of freedom.
double student_t(std::size_t degrees_of_freedom);

/// One of the batches whose means show how far the mean of all may be off.
struct SampleBatch {
  double weight = 0, sum = 0;
};

/// Mean of all batches, the variance of that mean as they show it, and the number that are not
/// empty.
struct BatchMean {
  double mean = 0, variance = 0;
  std::size_t num_batches = 0;
};
BatchMean mean_of(const std::vector<SampleBatch>& batches);
std::vector<SampleBatch> batches_of(const std::vector<double>& values);

/// Fills in mean, its interval and effective_n, from the batches and the variance of the values.
void set_mean(Distribution& d, const BatchMean& batches, double variance, double most_effective);

/// The percentiles of a distribution, and where each is kept.
struct Percentile {
  double q;
  std::optional<double> Distribution::*value, Distribution::*low, Distribution::*high;
};
inline constexpr Percentile kPercentiles[] = {
    {.5, &Distribution::p50, &Distribution::p50_low, &Distribution::p50_high},
    {.9, &Distribution::p90, &Distribution::p90_low, &Distribution::p90_high},
    {.95, &Distribution::p95, &Distribution::p95_low, &Distribution::p95_high},
    {.99, &Distribution::p99, &Distribution::p99_low, &Distribution::p99_high}};

/// quantile_ranks for `effective_n` values, as 0-based ranks among n values; outwards.
RankInterval data_ranks(std::int64_t n, double effective_n, double q);

}  // namespace tessera::serving
