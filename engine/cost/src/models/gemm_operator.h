#pragma once

#include <Eigen/Core>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gemm_correction.h"
#include "gemm_tiles.h"

namespace tessera::cost::models {

/// Seconds of a matrix product of one dtype on one device: tiles times correction, made
/// non-decreasing in m by isotonic regression over the knots of m (in the logarithm), and between
/// knots rising as the tiles do. Safe to ask from several threads.
class GemmOperator final : public OpModel {
 public:
  /// `correction`: [num_gemm_features()].
  GemmOperator(std::string dtype, GemmTiles tiles, Eigen::VectorXd correction);

  double seconds(const OpQuery& query) const override;
  Json coefficients() const override;

  const std::string& dtype() const { return dtype_; }
  const GemmTiles& tiles() const { return tiles_; }
  const Eigen::VectorXd& correction() const { return correction_; }

 private:
  /// Logarithms of seconds at the knots of m: of the tiles alone, and of the whole.
  struct Curve {
    std::vector<double> tiles, whole;
  };
  const Curve& curve(double n, double k) const;
  Curve make_curve(double n, double k) const;

  std::string dtype_;
  GemmTiles tiles_;
  Eigen::VectorXd correction_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<double, double>, Curve> curves_;  ///< a planner asks for few (n, k)
};

}  // namespace tessera::cost::models
