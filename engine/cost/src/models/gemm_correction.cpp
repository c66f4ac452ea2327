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
// n, or k, of a pair with m: dense where models have their widths.
const Knots kPaired = {5, 7, 8, 9, 10, 11, 11.585, 12, 12.32, 12.8, 13, 13.32, 14, 16};
const Knots kRows = {0, 2, 3, 4, 5, 6, 6.585, 7, 7.585, 8, 8.585, 9, 10, 13};  // m of the triple
const Knots kSides = {6, 8, 10, 11, 12, 13, 14, 16};    // n and k of the triple
const Knots kLoss = {0, 1, 2, 4};                       // waves
const Knots kLoad = {-3, -1.5, -0.5, 0, 0.5, 1, 2, 3};  // tiles per SM
constexpr double kRowsThatFill = 128;  // tiles, about where arithmetic takes as long as weights
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

// What depends on m alone and on two of the three.
void add_lines(const GemmShape& shape, Row& row) {
  const double m = std::log2(shape.m), n = std::log2(shape.n), k = std::log2(shape.k);
  const Hats rows = hats(m, m_knots());
  row.add(rows, m_knots());
  row.add(hats(n, kFine), kFine, hats(k, kFine), kFine);
  row.add(rows, m_knots(), hats(n, kPaired), kPaired);
  row.add(rows, m_knots(), hats(k, kPaired), kPaired);
}

int write_row(const GemmShape& shape, double num_sms, std::vector<GemmFeature>& out) {
  const double m = std::log2(shape.m), n = std::log2(shape.n), k = std::log2(shape.k);
  Row row(out);
  add_lines(shape, row);
  row.add(hats(m, kRows), kRows, hats(n, kSides), kSides, hats(k, kSides), kSides);
  for (const GemmTile& tile : kTiles) {
    const double load =
        std::ceil(shape.m / tile.rows) * std::ceil(shape.n / tile.columns) / num_sms;
    const double loss = load < 1 ? 0 : std::log2(std::ceil(load) / load);
    // Few rows stream the weights and leave tiles empty: waves say nothing then.
    const double filled = std::min(1.0, shape.m / kRowsThatFill);
    row.add(hats(std::log2(load), kLoss), kLoss, filled * loss);
    row.add(hats(std::log2(load), kLoad), kLoad, filled);
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

const GemmGrid& gemm_grid() {
  static const GemmGrid grid = [] {
    GemmGrid result;
    std::vector<GemmFeature> unused;
    Row row(unused);
    add_lines({}, row);
    result.first = row.size_so_far();
    for (const double m : kRows) {
      for (const double n : kSides) {
        for (const double k : kSides) {
          result.shapes.push_back({std::exp2(m), std::exp2(n), std::exp2(k)});
        }
      }
    }
    return result;
  }();
  return grid;
}

double dot(const std::vector<GemmFeature>& features, const Eigen::VectorXd& coefficients) {
  double sum = 0;
  for (const GemmFeature& feature : features) sum += feature.value * coefficients[feature.index];
  return sum;
}

}  // namespace tessera::cost::models
