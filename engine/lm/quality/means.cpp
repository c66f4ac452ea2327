#include "means.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera::lm::quality {

MeanAndError mean_of(std::span<const double> values) {
  MeanAndError result;
  if (values.empty()) return result;
  const auto count = static_cast<double>(values.size());
  result.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.standard_error = std::sqrt(squares / (count - 1) / count);
  return result;
}

void BatchMeans::add(double value) {
  if (count_ % kBatch == 0) sums_.push_back(0);
  sums_.back() += value;
  ++count_;
}

double BatchMeans::mean() const {
  return std::accumulate(sums_.begin(), sums_.end(), 0.0) / static_cast<double>(count_);
}

std::optional<double> BatchMeans::standard_error() const {
  constexpr std::size_t kMostBatches = 63;
  std::vector<double> sums = sums_;
  std::int64_t batch = kBatch;
  for (; sums.size() > kMostBatches; batch *= 2) {
    for (std::size_t i = 0; i < sums.size(); i += 2)
      sums[i / 2] = sums[i] + (i + 1 < sums.size() ? sums[i + 1] : 0);
    sums.resize((sums.size() + 1) / 2);
  }
  if (sums.size() < 2) return std::nullopt;
  const auto num_batches = static_cast<double>(sums.size());
  double squares = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::int64_t own = std::min(batch, count_ - static_cast<std::int64_t>(i) * batch);
    const double deviation = sums[i] - mean() * static_cast<double>(own);
    squares += deviation * deviation;
  }
  return std::sqrt(squares * num_batches / (num_batches - 1)) / static_cast<double>(count_);
}

}  // namespace tessera::lm::quality
