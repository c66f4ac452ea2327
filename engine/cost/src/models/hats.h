#pragma once

#include <Eigen/Core>
#include <vector>

namespace tessera::cost::models {

/// One nonzero of a row of a design matrix.
struct Feature {
  int index = 0;
  double value = 0;
};

using Knots = std::vector<double>;

/// The nonzero hats of a position (piecewise linear, 1 at one knot and 0 at the others): two
/// neighbours, whose values add up to 1. Constant outside the outermost knots.
struct Hats {
  int index = 0;
  double upper = 0;  ///< share of knot index + 1
};
Hats hats(double x, const Knots& knots);

/// Fills a row with groups of features, one after another: hats of one position, and products of
/// the hats of two or three. Indices ascend within each group only.
class HatRow {
 public:
  explicit HatRow(std::vector<Feature>& out) : out_(out) { out_.clear(); }

  void add(const Hats& x, const Knots& xs, double scale = 1);
  void add(const Hats& x, const Knots& xs, const Hats& y, const Knots& ys);
  void add(const Hats& x, const Knots& xs, const Hats& y, const Knots& ys, const Hats& z,
           const Knots& zs);
  int size_so_far() const { return next_; }

 private:
  void push(int index, double value) {
    if (value != 0) out_.push_back({next_ + index, value});
  }

  std::vector<Feature>& out_;
  int next_ = 0;
};

/// Adds up value times coefficient.
double dot(const std::vector<Feature>& features, const Eigen::VectorXd& coefficients);

}  // namespace tessera::cost::models
