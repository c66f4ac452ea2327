#pragma once

#include <cstdint>
#include <vector>

#include "tessera/core/rng.h"
#include "tessera/serving/traffic_options.h"

namespace tessera::serving {

/// What is drawn, each from a stream of its own.
enum class Draws : std::uint64_t {
  arrivals,
  prompts,
  outputs,
  prefixes,
  classes,
  sessions,
  thin,
  patience
};

Rng stream_of(std::int64_t seed, Draws what);

/// In (0, 1), never an end.
inline double open_uniform(Rng& rng) {
  return (static_cast<double>(rng.next() >> 11) + 0.5) * 0x1.0p-53;
}

/// Standard normal quantile of p in (0, 1), to about 1e-16 (Wichura 1988, AS 241).
double inverse_normal(double p);

/// Gamma with mean 1 (Marsaglia and Tsang 2000, with their boost below a shape of 1).
double unit_gamma(Rng& rng, double shape);

/// Draws of a LengthDistribution that its check let pass; by inversion, so that draws of two
/// distributions from the same stream go up and down together.
class LengthSampler {
 public:
  explicit LengthSampler(const LengthDistribution& lengths);

  std::int64_t draw(Rng& rng) const;
  double mean() const { return mean_; }

 private:
  double mean_of_lesser(double scale, double limit) const;
  double limited_mean(double scale) const;
  double quantile(double u) const;

  LengthKind kind_;
  double mean_ = 1, sigma_ = 0, scale_ = 1;
  double low_ = 1, high_ = static_cast<double>(kMaxTokensPerRequest);
};

/// Index i with probability proportional to weight i.
class IndexSampler {
 public:
  explicit IndexSampler(const std::vector<double>& weights);
  std::size_t draw(Rng& rng) const;

 private:
  std::vector<double> cumulative_;
};

}  // namespace tessera::serving
