#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

/// Means of samples and what they leave open.
namespace tessera::lm::quality {

struct MeanAndError {
  double mean = 0;
  std::optional<double> standard_error;  ///< absent for fewer than two values
};

/// Of values that are independent: the sample's deviation over the square root of its size.
MeanAndError mean_of(std::span<const double> values);

/// Mean of a stream of correlated values, and its standard error by batch means: values that follow
/// each other are one batch of at least kBatch. Batches are joined in pairs while more than 63
/// would remain, since the longer they are, the less they depend on each other; 10 to 30 of them
/// give as good an estimate as any number (Schmeiser, Operations Research 30, 1982). The last may
/// be shorter: the error is that of a ratio, sum of values to their number.
class BatchMeans {
 public:
  static constexpr std::int64_t kBatch = 256;

  void add(double value);
  std::int64_t count() const { return count_; }
  double mean() const;
  std::optional<double> standard_error() const;

 private:
  std::vector<double> sums_;  ///< of kBatch values each, but the last
  std::int64_t count_ = 0;
};

}  // namespace tessera::lm::quality
