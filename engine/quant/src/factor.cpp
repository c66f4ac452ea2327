#include "factor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dense/dense.h"
#include "tessera/core/error.h"
#include "tessera/kernels/parallel.h"

namespace tessera::quant {
namespace {

constexpr double kDampings[] = {0.01, 0.1, 1};
constexpr std::int64_t kBlock = 128;

using dense::Block;
using dense::ConstBlock;
using dense::Op;

// R R^T = A for one block in place, from the last column to the first; false where A is not
// positive definite.
bool factorise_block(float* a, std::int64_t width, std::int64_t stride) {
  for (std::int64_t j = width - 1; j >= 0; --j) {
    const float* row_j = a + j * stride;
    double pivot = row_j[j];
    for (std::int64_t k = j + 1; k < width; ++k) pivot -= static_cast<double>(row_j[k]) * row_j[k];
    if (!(pivot > 0) || !std::isfinite(pivot)) return false;
    const double root = std::sqrt(pivot);
    for (std::int64_t i = 0; i < j; ++i) {
      const float* row_i = a + i * stride;
      double sum = row_i[j];
      for (std::int64_t k = j + 1; k < width; ++k) sum -= static_cast<double>(row_i[k]) * row_j[k];
      a[i * stride + j] = static_cast<float>(sum / root);
    }
    a[j * stride + j] = static_cast<float>(root);
    std::fill_n(a + j * stride, j, 0.0f);
  }
  return true;
}

void invert_block(const float* r, std::int64_t width, std::int64_t stride, float* inverse) {
  std::fill_n(inverse, width * width, 0.0f);
  std::vector<double> column(static_cast<std::size_t>(width));
  for (std::int64_t j = 0; j < width; ++j) {
    for (std::int64_t i = j; i >= 0; --i) {
      double sum = i == j ? 1 : 0;
      for (std::int64_t k = i + 1; k <= j; ++k)
        sum -= static_cast<double>(r[i * stride + k]) * column[static_cast<std::size_t>(k)];
      column[static_cast<std::size_t>(i)] = sum / r[i * stride + i];
      inverse[i * width + j] = static_cast<float>(column[static_cast<std::size_t>(i)]);
    }
  }
}

// The columns of the block above it, then everything above and left of it.
void update_above(Factor& factor, std::int64_t first, int num_threads) {
  const std::int64_t n = factor.size, width = factor.width(first);
  const ConstBlock inverse{factor.inverse_of(first), width, width, width};
  const auto panel = [&](std::int64_t i, std::int64_t rows) {
    return Block{factor.r.data() + i * n + first, rows, width, n};
  };
  const auto as_const = [](Block b) { return ConstBlock{b.data, b.rows, b.columns, b.stride}; };
  kernels::for_slices(num_threads, first, kBlock, [&](std::int64_t i, std::int64_t last) {
    std::vector<float> solved(static_cast<std::size_t>((last - i) * width), 0.0f);
    const Block out{solved.data(), last - i, width, width};
    dense::functions().multiply_add(1, as_const(panel(i, last - i)), Op::as_is, inverse,
                                    Op::transposed, out);
    for (std::int64_t row = i; row < last; ++row)
      std::copy_n(solved.data() + (row - i) * width, width, factor.r.data() + row * n + first);
  });
  kernels::for_slices(num_threads, first, kBlock, [&](std::int64_t i, std::int64_t last) {
    const Block out{factor.r.data() + i * n + i, last - i, first - i, n};
    dense::functions().multiply_add(-1, as_const(panel(i, last - i)), Op::as_is,
                                    as_const(panel(i, first - i)), Op::transposed, out);
  });
}

bool factorise_in_place(Factor& factor, int num_threads) {
  const std::int64_t n = factor.size;
  for (std::int64_t first = (n - 1) / factor.block * factor.block; first >= 0;
       first -= factor.block) {
    float* diagonal = factor.r.data() + first * n + first;
    if (!factorise_block(diagonal, factor.width(first), n)) return false;
    invert_block(diagonal, factor.width(first), n, factor.inverse.data() + first * factor.block);
    update_above(factor, first, num_threads);
  }
  return true;
}

void fill(Factor& factor, const Eigen::MatrixXf& hessian, double mean) {
  const std::int64_t n = factor.size;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t from = factor.order[static_cast<std::size_t>(i)];
    for (std::int64_t j = 0; j < n; ++j) {
      factor.r[static_cast<std::size_t>(i * n + j)] =
          hessian(factor.order[static_cast<std::size_t>(j)], from);
    }
    const bool dead = factor.dead[static_cast<std::size_t>(from)];
    factor.added[static_cast<std::size_t>(i)] =
        static_cast<float>(mean * (factor.damping + (dead ? 1 : 0)));
    factor.r[static_cast<std::size_t>(i * n + i)] += factor.added[static_cast<std::size_t>(i)];
  }
}

// Columns quantised before the rest is updated: a whole number of groups, whose scales are chosen
// from weights that are up to date.
std::int64_t block_columns(const Scheme& scheme, std::int64_t columns) {
  std::int64_t block = kBlock;
  if (scheme.granularity == Granularity::group) {
    block = std::max(kBlock / scheme.group_size, std::int64_t{1}) * scheme.group_size;
  }
  return std::min(block, columns);
}

// In which order the columns come, which scale each has, which are dead.
Factor order_columns(const Eigen::MatrixXf& hessian, const Scheme& scheme) {
  Factor factor;
  factor.size = hessian.rows();
  factor.block = block_columns(scheme, factor.size);
  const auto n = static_cast<std::size_t>(factor.size);
  factor.order.resize(n);
  std::iota(factor.order.begin(), factor.order.end(), 0);
  if (scheme.act_order != ActOrder::none) {
    std::stable_sort(factor.order.begin(), factor.order.end(),
                     [&](std::int32_t a, std::int32_t b) { return hessian(a, a) > hessian(b, b); });
  }
  factor.group.resize(n);
  if (scheme.granularity == Granularity::group) {
    for (std::size_t j = 0; j < n; ++j) {
      const bool by_column = scheme.act_order == ActOrder::weight;
      const auto at = by_column ? factor.order[j] : static_cast<std::int32_t>(j);
      factor.group[j] = static_cast<std::int32_t>(at / scheme.group_size);
    }
  }
  for (std::int64_t j = 0; j < factor.size; ++j) factor.dead.push_back(hessian(j, j) == 0);
  return factor;
}

}  // namespace

Factor factorise(const Eigen::MatrixXf& hessian, const Scheme& scheme, int num_threads) {
  Factor factor = order_columns(hessian, scheme);
  const auto n = static_cast<std::size_t>(factor.size);
  factor.added.resize(n);
  factor.r.resize(n * n);
  factor.inverse.resize(n * static_cast<std::size_t>(factor.block));
  const auto alive = std::count(factor.dead.begin(), factor.dead.end(), false);
  const double mean = hessian.diagonal().cast<double>().sum() / static_cast<double>(alive);
  for (const double damping : kDampings) {
    factor.damping = damping;
    fill(factor, hessian, mean);
    if (factorise_in_place(factor, num_threads)) return factor;
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the Hessian is not positive definite even with its mean added to the "
                          "diagonal (mean {:.3g}, {} of {} columns alive): these are no sums of "
                          "x x^T; write the statistics again",
                          mean, alive, factor.size));
}

}  // namespace tessera::quant
