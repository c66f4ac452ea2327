#include "gemm_correction.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tessera::cost::models {
namespace {

using Knots = std::vector<double>;

// The nonzero hats of a position: two neighbours, whose values add up to 1.
struct Hats {
  int index = 0;
  double upper = 0;  // share of knot index + 1
};

Hats hats(double x, const Knots& knots) {
  const double inside = std::clamp(x, knots.front(), knots.back());
  const auto above = std::upper_bound(knots.begin(), knots.end(), inside);
  const auto last = static_cast<std::ptrdiff_t>(knots.size()) - 2;
  const auto index = std::min(above - knots.begin() - 1, last);
  const double low = knots[static_cast<std::size_t>(index)];
  const double high = knots[static_cast<std::size_t>(index) + 1];
  return {static_cast<int>(index), (inside - low) / (high - low)};
}

double weight(const Hats& at, int side) { return side == 0 ? 1 - at.upper : at.upper; }

// Knots in log2.
const Knots& m_knots() {
  static const Knots knots = [] {
    Knots result;
    for (const double m : gemm_knots()) result.push_back(std::log2(m));
    return result;
  }();
  return knots;
}
const Knots kFine = {5, 7, 9, 10, 11, 12, 13, 14, 16};  // n and k of the pair
const Knots kRows = {0, 2, 3, 4, 5, 6, 6.585, 7, 7.585, 8, 8.585, 9, 10, 13};  // m of the triple
const Knots kSides = {6, 8, 10, 11, 12, 13, 14, 16};    // n and k of the triple
const Knots kLoss = {0, 1, 2, 4};                       // waves
const Knots kLoad = {-3, -1.5, -0.5, 0, 0.5, 1, 2, 3};  // tiles per SM
constexpr std::array<GemmTile, 5> kTiles = {
    {{64, 64}, {128, 128}, {128, 256}, {64, 128}, {32, 128}}};

// Appends features of one group after another.
class Row {
 public:
  explicit Row(std::vector<GemmFeature>& out) : out_(out) { out_.clear(); }

  void add(const Hats& x, const Knots& knots, double scale = 1) {
    for (int i = 0; i < 2; ++i) push(x.index + i, scale * weight(x, i));
    next_ += size(knots);
  }
  void add(const Hats& x, const Knots& xs, const Hats& y, const Knots& ys) {
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) {
        push((x.index + i) * size(ys) + y.index + j, weight(x, i) * weight(y, j));
      }
    }
    next_ += size(xs) * size(ys);
  }
  void add(const Hats& x, const Knots& xs, const Hats& y, const Knots& ys, const Hats& z,
           const Knots& zs) {
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) {
        for (int l = 0; l < 2; ++l) {
          push(((x.index + i) * size(ys) + y.index + j) * size(zs) + z.index + l,
               weight(x, i) * weight(y, j) * weight(z, l));
        }
      }
    }
    next_ += size(xs) * size(ys) * size(zs);
  }
  int size_so_far() const { return next_; }

 private:
  void push(int index, double value) {
    if (value != 0) out_.push_back({next_ + index, value});
  }
  static int size(const Knots& knots) { return static_cast<int>(knots.size()); }

  std::vector<GemmFeature>& out_;
  int next_ = 0;
};

int write_row(const GemmShape& shape, double num_sms, std::vector<GemmFeature>& out) {
  const double m = std::log2(shape.m), n = std::log2(shape.n), k = std::log2(shape.k);
  Row row(out);
  row.add(hats(m, m_knots()), m_knots());
  row.add(hats(n, kFine), kFine, hats(k, kFine), kFine);
  row.add(hats(m, kRows), kRows, hats(n, kSides), kSides, hats(k, kSides), kSides);
  for (const GemmTile& tile : kTiles) {
    const double load =
        std::ceil(shape.m / tile.rows) * std::ceil(shape.n / tile.columns) / num_sms;
    const double loss = load < 1 ? 0 : std::log2(std::ceil(load) / load);
    row.add(hats(std::log2(load), kLoss), kLoss, loss);
    row.add(hats(std::log2(load), kLoad), kLoad);
  }
  return row.size_so_far();
}

}  // namespace

const std::vector<double>& gemm_knots() {
  static const std::vector<double> knots = {1,   2,   4,   8,    16,   32,   48,
                                            64,  80,  96,  128,  160,  192,  256,
                                            384, 512, 768, 1024, 2048, 4096, 8192};
  return knots;
}

void gemm_features(const GemmShape& shape, double num_sms, std::vector<GemmFeature>& out) {
  write_row(shape, num_sms, out);
}

int num_gemm_features() {
  static const int count = [] {
    std::vector<GemmFeature> unused;
    return write_row({}, 1, unused);
  }();
  return count;
}

double dot(const std::vector<GemmFeature>& features, const Eigen::VectorXd& coefficients) {
  double sum = 0;
  for (const GemmFeature& feature : features) sum += feature.value * coefficients[feature.index];
  return sum;
}

}  // namespace tessera::cost::models
