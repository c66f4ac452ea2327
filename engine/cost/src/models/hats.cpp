#include "hats.h"

#include <algorithm>

namespace tessera::cost::models {
namespace {

double weight(const Hats& at, int side) { return side == 0 ? 1 - at.upper : at.upper; }

int size_of(const Knots& knots) { return static_cast<int>(knots.size()); }

}  // namespace

Hats hats(double x, const Knots& knots) {
  const double inside = std::clamp(x, knots.front(), knots.back());
  const auto above = std::upper_bound(knots.begin(), knots.end(), inside);
  const auto last = static_cast<std::ptrdiff_t>(knots.size()) - 2;
  const auto index = std::min(above - knots.begin() - 1, last);
  const double low = knots[static_cast<std::size_t>(index)];
  const double high = knots[static_cast<std::size_t>(index) + 1];
  return {static_cast<int>(index), (inside - low) / (high - low)};
}

void HatRow::add(const Hats& x, const Knots& xs, double scale) {
  for (int i = 0; i < 2; ++i) push(x.index + i, scale * weight(x, i));
  next_ += size_of(xs);
}

void HatRow::add(const Hats& x, const Knots& xs, const Hats& y, const Knots& ys) {
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      push((x.index + i) * size_of(ys) + y.index + j, weight(x, i) * weight(y, j));
    }
  }
  next_ += size_of(xs) * size_of(ys);
}

void HatRow::add(const Hats& x, const Knots& xs, const Hats& y, const Knots& ys, const Hats& z,
                 const Knots& zs) {
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      for (int l = 0; l < 2; ++l) {
        push(((x.index + i) * size_of(ys) + y.index + j) * size_of(zs) + z.index + l,
             weight(x, i) * weight(y, j) * weight(z, l));
      }
    }
  }
  next_ += size_of(xs) * size_of(ys) * size_of(zs);
}

double dot(const std::vector<Feature>& features, const Eigen::VectorXd& coefficients) {
  double sum = 0;
  for (const Feature& feature : features) sum += feature.value * coefficients[feature.index];
  return sum;
}

}  // namespace tessera::cost::models
