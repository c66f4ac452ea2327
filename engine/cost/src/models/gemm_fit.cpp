#include "gemm_fit.h"

#include <algorithm>
#include <cmath>

#include "correction.h"
#include "damped_fit.h"
#include "tessera/core/error.h"

namespace tessera::cost::models {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Settings of the fits, chosen by held-out error over (n, k) on the GPUs that were measured.
constexpr std::size_t kTilePoints = 1500;  // enough for 26 parameters; the rest only costs time
constexpr int kTileSteps = 20;
constexpr double kTileScale = 0.1;       // errors beyond this count linearly
constexpr double kTilePrecision = 0.09;  // of the prior, per squared logarithm
// Of a form taken from another GPU, chosen on both directions of the two that were measured, four
// dtypes and a dozen draws of 20 points, one setting for all.
constexpr double kDonorShare = 0.25;   // of its correction: most of it is its own choice of kernel
constexpr double kChipShare = 1;       // where the chip is the same, so is that choice
constexpr double kOwnPrecision = 0.1;  // of what one tile moves beyond its group

struct Points {
  std::vector<GemmShape> shapes;
  std::vector<double> log_s;
  std::size_t size() const { return shapes.size(); }
};

Points points_of(const std::vector<Sample>& samples) {
  Points points;
  for (const Sample& sample : samples) {
    check_query(sample.query);
    if (!(sample.latency_s > 0) || !std::isfinite(sample.latency_s)) {
      throw Error(ErrorCode::invalid_argument,
                  describe(sample.query) + ": latency_s is not a positive time", "latency_s");
    }
    const double m = std::max(sample.query.m, gemm_knots().front());
    points.shapes.push_back({m, sample.query.n, sample.query.k});
    points.log_s.push_back(std::log(sample.latency_s));
  }
  return points;
}

// A part of the points, the same for the same number of them.
Points thinned(const Points& points, std::size_t most) {
  if (points.size() <= most) return points;
  Points result;
  for (const std::size_t i : some_of(points.size(), most)) {
    result.shapes.push_back(points.shapes[i]);
    result.log_s.push_back(points.log_s[i]);
  }
  return result;
}

// Tiles that may move along some directions from where they start.
struct TileFit {
  const Points& points;
  const GemmRates& rates;
  GemmTiles::Vector start;  // free
  MatrixXd directions;      // [kNumParameters, moves]
  VectorXd precision;       // [moves]

  GemmTiles at(const VectorXd& moves) const {
    return {rates, GemmTiles::from_free(start + directions * moves)};
  }
  VectorXd residuals(const VectorXd& moves) const {
    const GemmTiles tiles = at(moves);
    VectorXd result(static_cast<Index>(points.size()));
    for (std::size_t i = 0; i < points.size(); ++i) {
      result[static_cast<Index>(i)] = std::log(tiles.seconds(points.shapes[i])) - points.log_s[i];
    }
    return result;
  }
  GemmTiles solve() const {
    const DampedFit fit{[this](const VectorXd& moves) { return residuals(moves); }, precision,
                        kTileScale, kTileSteps};
    return at(fit.solve());
  }
};

double log_s(const GemmTiles& tiles, const GemmShape& shape) {
  return std::log(tiles.seconds(shape));
}

// Coefficients that take away what `tiles` leave over.
VectorXd correction_of(const Points& points, const GemmTiles& tiles) {
  FeatureRows rows(points.size());
  VectorXd target(static_cast<Index>(points.size()));
  for (std::size_t i = 0; i < points.size(); ++i) {
    gemm_features(points.shapes[i], tiles.rates().num_sms, rows[i]);
    target[static_cast<Index>(i)] = points.log_s[i] - log_s(tiles, points.shapes[i]);
  }
  return fit_correction(rows, target, num_gemm_features());
}

// What `tiles` leave over, as a Gaussian process (kriging) that is read off at the knots: few
// points say how the function runs between them, and nothing far from all of them.
VectorXd smooth_correction(const Points& all, const GemmTiles& tiles) {
  const Points points = thinned(all, kTilePoints);
  const auto count = static_cast<Index>(points.size());
  VectorXd target(count);
  MatrixXd between(count, count);
  for (Index i = 0; i < count; ++i) {
    const GemmShape& shape = points.shapes[static_cast<std::size_t>(i)];
    target[i] = points.log_s[static_cast<std::size_t>(i)] - log_s(tiles, shape);
    for (Index j = 0; j < count; ++j) {
      between(i, j) = gemm_covariance(shape, points.shapes[static_cast<std::size_t>(j)]);
    }
  }
  const VectorXd shares = kriging_shares(between, target);
  const GemmGrid& grid = gemm_grid();
  VectorXd result = VectorXd::Zero(num_gemm_features());
  for (std::size_t at = 0; at < grid.shapes.size(); ++at) {
    for (Index i = 0; i < count; ++i) {
      result[grid.first + static_cast<Index>(at)] +=
          shares[i] * gemm_covariance(grid.shapes[at], points.shapes[static_cast<std::size_t>(i)]);
    }
  }
  return result;
}

// To the digits that a file keeps, so that what is read back is what was fitted.
double rounded(double value, int digits) {
  if (value == 0) return 0;
  const double unit = std::pow(10.0, digits - 1 - std::floor(std::log10(std::abs(value))));
  return std::round(value * unit) / unit;
}

std::unique_ptr<GemmOperator> rounded_model(const std::string& dtype, const GemmTiles& tiles,
                                            const VectorXd& correction) {
  GemmTiles::Vector values = tiles.values();
  for (double& value : values) value = rounded(value, 4);
  return std::make_unique<GemmOperator>(dtype, GemmTiles(tiles.rates(), values),
                                        rounded_correction(correction));
}

}  // namespace

// Groups first, then every parameter by itself.
MatrixXd gemm_scale_directions() {
  const auto& groups = gemm_parameter_groups();
  const auto num_groups = static_cast<Index>(groups.size());
  constexpr int kCount = GemmTiles::kNumParameters;
  MatrixXd directions = MatrixXd::Zero(kCount, num_groups + kCount);
  for (Index g = 0; g < num_groups; ++g) {
    for (const int parameter : groups[static_cast<std::size_t>(g)]) directions(parameter, g) = 1;
  }
  directions.rightCols(kCount).setIdentity();
  return directions;
}

VectorXd gemm_scale_precision() {
  const auto num_groups = static_cast<Index>(gemm_parameter_groups().size());
  VectorXd precision = VectorXd::Constant(num_groups + GemmTiles::kNumParameters, kOwnPrecision);
  precision.head(num_groups).setConstant(kTilePrecision);
  return precision;
}

// Two smooth functions added up: one of the whole range, and one of where kernels change.
double gemm_covariance(const GemmShape& a, const GemmShape& b) {
  struct Scale {
    double deviation, rows_octaves, sides_octaves;
  };
  constexpr Scale kScales[] = {{0.24, 3.5, 5}, {0.18, 1.5, 2.5}};
  const double m = std::log2(a.m / b.m), n = std::log2(a.n / b.n), k = std::log2(a.k / b.k);
  double sum = 0;
  for (const Scale& scale : kScales) {
    const double rows = m / scale.rows_octaves;
    const double sides_squared = (n * n + k * k) / (scale.sides_octaves * scale.sides_octaves);
    sum += scale.deviation * scale.deviation * std::exp(-(rows * rows + sides_squared) / 2);
  }
  return sum;
}

std::unique_ptr<GemmOperator> fit_gemm(const Device& device, const std::vector<Sample>& samples) {
  if (samples.empty()) {
    throw Error(ErrorCode::invalid_argument, "gemm operator: no samples to fit", "samples");
  }
  const std::string& dtype = samples.front().query.dtype;
  const GemmRates rates = gemm_rates(device, dtype);
  const Points points = points_of(samples);
  const Points few = thinned(points, kTilePoints);
  constexpr int kCount = GemmTiles::kNumParameters;
  const TileFit tile_fit{few, rates, GemmTiles::to_free(GemmTiles::typical()),
                         MatrixXd::Identity(kCount, kCount),
                         VectorXd::Constant(kCount, kTilePrecision)};
  const GemmTiles tiles = tile_fit.solve();
  return rounded_model(dtype, tiles, correction_of(points, tiles));
}

std::unique_ptr<GemmOperator> scale_gemm(const Device& device, const std::vector<Sample>& samples,
                                         const GemmOperator& donor) {
  // A dtype that nobody measured elsewhere takes the form of another, at its own widths and rate.
  const std::string dtype = samples.empty() ? donor.dtype() : samples.front().query.dtype;
  const GemmRates rates = gemm_rates(device, dtype);
  const GemmTiles form = donor.tiles().carried_to(rates);
  const bool same = dtype == donor.dtype() && same_chip(rates, donor.tiles().rates());
  const VectorXd believed = (same ? kChipShare : kDonorShare) * donor.correction();
  if (samples.empty()) return rounded_model(dtype, form, believed);
  Points points = points_of(samples);
  std::vector<Feature> features;
  for (std::size_t i = 0; i < points.size(); ++i) {
    gemm_features(points.shapes[i], rates.num_sms, features);
    points.log_s[i] -= dot(features, believed);
  }
  const MatrixXd directions = gemm_scale_directions();
  const TileFit tile_fit{points, rates, GemmTiles::to_free(form.values()), directions,
                         gemm_scale_precision()};
  const GemmTiles tiles = tile_fit.solve();
  return rounded_model(dtype, tiles, believed + smooth_correction(points, tiles));
}

}  // namespace tessera::cost::models
