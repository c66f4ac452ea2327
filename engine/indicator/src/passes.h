#pragma once

#include <chrono>
#include <vector>

#include "tessera/core/thread_pool.h"
#include "tessera/indicator/from_weights.h"
#include "tessera/weights/linears.h"

/// The two passes of `make_from_weights` over a layer. Each appends the layer's omega, a value per
/// bitwidth, and adds its seconds to `weights_s` and `statistics_s`.
namespace tessera::indicator {

inline constexpr const char* kPublishedCode = "llm-pq-code";

using Layer = std::vector<weights::LinearWeight>;

/// What a pass reads.
struct Source {
  const weights::Weights& weights;
  const quant::Statistics* statistics;
  const WeightsRequest& request;
  ThreadPool& threads;
};

/// Kind "variance": ranges of the weights times moments of the inputs.
void add_variance(const Source& source, const Layer& layer, Indicator& result);

/// The kinds that quantise: errors weighted by Hessians.
void add_errors(const Source& source, const Layer& layer, Indicator& result);

/// @throws Error{invalid_argument} where the file has none for this operator, or of other features
quant::LinearStatistics require_statistics(const Source& source,
                                           const weights::LinearWeight& linear, bool with_hessian);

/// Adds the seconds of a scope to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum_s) : sum_s_(sum_s), start_(Clock::now()) {}
  ~Stopwatch() { sum_s_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& sum_s_;
  Clock::time_point start_;
};

}  // namespace tessera::indicator
