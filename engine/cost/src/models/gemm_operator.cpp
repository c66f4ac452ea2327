#include "gemm_operator.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "correction.h"
#include "gemm_fit.h"
#include "models.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"

namespace tessera::cost::models {
namespace {

constexpr double kMostCorrection = 2.5;  // logarithm: a factor of 12
constexpr std::size_t kMostCurves = 4096;

// The non-decreasing values nearest to `values` in least squares (pool adjacent violators).
std::vector<double> isotonic(const std::vector<double>& values) {
  struct Pool {
    double mean;
    std::size_t size;
  };
  std::vector<Pool> pools;
  for (const double value : values) {
    pools.push_back({value, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean > pools.back().mean) {
      const Pool last = pools.back();
      pools.pop_back();
      Pool& pool = pools.back();
      const auto a = static_cast<double>(pool.size), b = static_cast<double>(last.size);
      pool.mean = (a * pool.mean + b * last.mean) / (a + b);
      pool.size += last.size;
    }
  }
  std::vector<double> result;
  for (const Pool& pool : pools) result.insert(result.end(), pool.size, pool.mean);
  return result;
}

std::unique_ptr<OpModel> read(const Device& device, const Json& coefficients,
                              const std::string& path) {
  JsonFields fields(coefficients, path);
  std::string dtype = fields.text("dtype");
  GemmTiles tiles =
      gemm_tiles_from_json(gemm_rates(device, dtype), fields.at("tiles"), fields.path_of("tiles"));
  Eigen::VectorXd correction =
      read_correction(fields.text("correction_permille"), num_gemm_features(),
                      fields.path_of("correction_permille"));
  fields.finish();
  return std::make_unique<GemmOperator>(std::move(dtype), std::move(tiles), std::move(correction));
}

std::unique_ptr<OpModel> fit(const Device& device, const std::vector<Sample>& samples,
                             const OpModel* donor) {
  if (donor == nullptr) return fit_gemm(device, samples);
  const auto* form = dynamic_cast<const GemmOperator*>(donor);
  if (form == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "gemm operator: the donor is a model of another kind, whose form cannot be scaled",
                "donor");
  }
  return scale_gemm(device, samples, *form);
}

}  // namespace

GemmOperator::GemmOperator(std::string dtype, GemmTiles tiles, Eigen::VectorXd correction)
    : dtype_(std::move(dtype)), tiles_(std::move(tiles)), correction_(std::move(correction)) {}

GemmOperator::Curve GemmOperator::make_curve(double n, double k) const {
  Curve result;
  std::vector<Feature> features;
  for (const double m : gemm_knots()) {
    const GemmShape shape{m, n, k};
    gemm_features(shape, tiles_.rates().num_sms, features);
    result.tiles.push_back(std::log(tiles_.seconds(shape)));
    const double factor = std::clamp(dot(features, correction_), -kMostCorrection, kMostCorrection);
    result.whole.push_back(result.tiles.back() + factor);
  }
  result.whole = isotonic(result.whole);
  return result;
}

const GemmOperator::Curve& GemmOperator::curve(double n, double k) const {
  const auto it = curves_.find({n, k});
  if (it != curves_.end()) return it->second;
  if (curves_.size() >= kMostCurves) curves_.clear();
  return curves_.emplace(std::pair(n, k), make_curve(n, k)).first->second;
}

double GemmOperator::seconds(const OpQuery& query) const {
  check_query(query);
  const std::vector<double>& knots = gemm_knots();
  const double m = std::max(query.m, knots.front());
  const double tiles = std::log(tiles_.seconds({m, query.n, query.k}));
  const std::lock_guard lock(mutex_);
  const Curve& at = curve(query.n, query.k);
  if (m >= knots.back()) return std::exp(at.whole.back() + tiles - at.tiles.back());
  const auto above = std::upper_bound(knots.begin(), knots.end(), m);
  const auto i = static_cast<std::size_t>(above - knots.begin()) - 1;
  // Between two knots time rises as the tiles say; where they say nothing, evenly in log m.
  const double rise = at.tiles[i + 1] - at.tiles[i];
  const double share = rise > 1e-12 ? std::clamp((tiles - at.tiles[i]) / rise, 0.0, 1.0)
                                    : std::log(m / knots[i]) / std::log(knots[i + 1] / knots[i]);
  return std::exp(at.whole[i] + share * (at.whole[i + 1] - at.whole[i]));
}

Json GemmOperator::coefficients() const {
  return {{"dtype", dtype_},
          {"tiles", to_json(tiles_)},
          {"correction_permille", write_correction(correction_)}};
}

const FitMethod& gemm_operator() {
  static const FitMethod method{"operator", fit, read};
  return method;
}

}  // namespace tessera::cost::models
