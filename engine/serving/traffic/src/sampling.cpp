#include "sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera::serving {

Rng stream_of(std::int64_t seed, Draws what) {
  // Two rounds of the seeding function keep the streams of neighbouring seeds apart.
  Rng seeds(static_cast<std::uint64_t>(seed));
  return Rng(seeds.next() ^ ((static_cast<std::uint64_t>(what) + 1) * 0x9E3779B97F4A7C15ull));
}

namespace {

template <std::size_t n>
double polynomial(const double (&coefficients)[n], double x) {
  double value = 0;
  for (std::size_t i = n; i-- > 0;) value = value * x + coefficients[i];
  return value;
}

double normal_cdf(double z) { return 0.5 * std::erfc(-z * M_SQRT1_2); }

}  // namespace

double inverse_normal(double p) {
  static constexpr double a[] = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                 1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                 3.3430575583588128105e+4, 2.5090809287301226727e+3};
  static constexpr double b[] = {1,
                                 4.2313330701600911252e+1,
                                 6.8718700749205790830e+2,
                                 5.3941960214247511077e+3,
                                 2.1213794301586595867e+4,
                                 3.9307895800092710610e+4,
                                 2.8729085735721942674e+4,
                                 5.2264952788528545610e+3};
  static constexpr double c[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                 5.76949722146069140550e0,  3.64784832476320460504e0,
                                 1.27045825245236838258e0,  2.41780725177450611770e-1,
                                 2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double d[] = {1,
                                 2.05319162663775882187e0,
                                 1.67638483018380384940e0,
                                 6.89767334985100004550e-1,
                                 1.48103976427480074590e-1,
                                 1.51986665636164571966e-2,
                                 5.47593808499534494600e-4,
                                 1.05075007164441684324e-9};
  static constexpr double e[] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                 1.78482653991729133580e0,  2.96560571828504891230e-1,
                                 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                 2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr double f[] = {1,
                                 5.99832206555887937690e-1,
                                 1.36929880922735805310e-1,
                                 1.48753612908506148525e-2,
                                 7.86869131145613259100e-4,
                                 1.84631831751005468180e-5,
                                 1.42151175831644588870e-7,
                                 2.04426310338993978564e-15};
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(a, r) / polynomial(b, r);
  }
  const double r = std::sqrt(-std::log(q < 0 ? p : 1 - p));
  const double z = r <= 5 ? polynomial(c, r - 1.6) / polynomial(d, r - 1.6)
                          : polynomial(e, r - 5) / polynomial(f, r - 5);
  return q < 0 ? -z : z;
}

double unit_gamma(Rng& rng, double shape) {
  const double boosted = shape < 1 ? shape + 1 : shape;
  const double d = boosted - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = inverse_normal(open_uniform(rng));
    const double cube = 1 + c * x, v = cube * cube * cube;
    const double u = open_uniform(rng);
    if (cube <= 0 || std::log(u) >= 0.5 * x * x + d * (1 - v + std::log(v))) continue;
    const double drawn = d * v / shape;
    return shape < 1 ? drawn * std::pow(open_uniform(rng), 1 / shape) : drawn;
  }
}

LengthSampler::LengthSampler(const LengthDistribution& lengths) : kind_(lengths.distribution) {
  if (lengths.min) low_ = static_cast<double>(*lengths.min);
  if (lengths.max) high_ = static_cast<double>(*lengths.max);
  if (kind_ == LengthKind::uniform) {
    mean_ = 0.5 * (low_ + high_);
    return;
  }
  mean_ = *lengths.mean;
  if (kind_ == LengthKind::fixed) return;
  if (kind_ == LengthKind::lognormal) sigma_ = std::sqrt(std::log1p(*lengths.cv * *lengths.cv));
  // The limited mean rises with the scale from `low` to `high`, and the mean is between them.
  double below = std::log(1e-12), above = std::log(1e24);
  if (kind_ == LengthKind::geometric) below = 0;
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (below + above);
    (limited_mean(std::exp(middle)) < mean_ ? below : above) = middle;
  }
  scale_ = std::exp(0.5 * (below + above));
}

/// E[min(X, limit)].
double LengthSampler::mean_of_lesser(double scale, double limit) const {
  if (kind_ == LengthKind::exponential) return -scale * std::expm1(-limit / scale);
  if (kind_ == LengthKind::geometric) {
    return -scale * std::expm1(limit * std::log1p(-1 / scale));
  }
  const double z = std::log(limit / scale) / sigma_;
  return scale * std::exp(0.5 * sigma_ * sigma_) * normal_cdf(z - sigma_) + limit * normal_cdf(-z);
}

double LengthSampler::limited_mean(double scale) const {
  return low_ + mean_of_lesser(scale, high_) - mean_of_lesser(scale, low_);
}

double LengthSampler::quantile(double u) const {
  if (kind_ == LengthKind::exponential) return -scale_ * std::log1p(-u);
  if (kind_ == LengthKind::geometric)
    return 1 + std::floor(std::log1p(-u) / std::log1p(-1 / scale_));
  return scale_ * std::exp(sigma_ * inverse_normal(u));
}

std::int64_t LengthSampler::draw(Rng& rng) const {
  if (kind_ == LengthKind::fixed) return static_cast<std::int64_t>(mean_);
  // Two draws whatever the kind, so that the streams of two kinds stay in step.
  const double u = open_uniform(rng), up = rng.uniform();
  if (kind_ == LengthKind::uniform) {
    const double drawn = low_ + std::floor(u * (high_ - low_ + 1));
    return static_cast<std::int64_t>(std::min(drawn, high_));
  }
  const double drawn = std::clamp(quantile(u), low_, high_);
  if (kind_ == LengthKind::geometric) return static_cast<std::int64_t>(drawn);
  // Limits are whole, so that rounding stays within them; its mean is the draw itself.
  return static_cast<std::int64_t>(std::floor(drawn + up));
}

IndexSampler::IndexSampler(const std::vector<double>& weights) : cumulative_(weights.size()) {
  std::partial_sum(weights.begin(), weights.end(), cumulative_.begin());
}

std::size_t IndexSampler::draw(Rng& rng) const {
  const double at = rng.uniform() * cumulative_.back();
  const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), at);
  const auto index = static_cast<std::size_t>(found - cumulative_.begin());
  return std::min(index, cumulative_.size() - 1);
}

}  // namespace tessera::serving
