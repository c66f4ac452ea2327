#include "gptq.h"

#include <algorithm>
#include <cmath>

#include "dense/dense.h"
#include "rtn.h"
#include "tessera/kernels/parallel.h"

namespace tessera::quant {
namespace {

using dense::Block;
using dense::ConstBlock;
using dense::Op;

constexpr std::int64_t kGrain = 128;  // rows that one thread works on

/// Some rows with their columns in the factor's order; dead columns are 0, as in the authors' code:
/// what no input reaches shall not widen the range of its group.
std::vector<float> ordered_rows(MatrixView weight, const Factor& factor, std::int64_t first,
                                std::int64_t last) {
  std::vector<float> rows(static_cast<std::size_t>((last - first) * weight.columns));
  float* out = rows.data();
  for (std::int64_t r = first; r < last; ++r) {
    for (const std::int32_t column : factor.order)
      *out++ = factor.dead[static_cast<std::size_t>(column)] ? 0 : weight.row(r)[column];
  }
  return rows;
}

/// E R for the columns [first, first + width) of the rows whose errors E = W - Q are known before
/// `known`: what GPTQ has to make up for, and in the end the error itself.
void add_product(const Factor& factor, const float* errors, std::int64_t num_rows,
                 std::int64_t known, std::int64_t first, float* out) {
  const std::int64_t n = factor.size, width = factor.width(first);
  dense::functions().multiply_add(1, {errors, num_rows, known, n}, Op::as_is,
                                  {factor.r.data() + first, known, width, n}, Op::as_is,
                                  {out, num_rows, width, width});
}

/// What the diagonal's additions contribute to |E R|^2, which the true error lacks.
double added_part(const Factor& factor, const float* errors, std::int64_t num_rows) {
  double sum = 0;
  for (std::int64_t r = 0; r < num_rows; ++r) {
    for (std::int64_t j = 0; j < factor.size; ++j) {
      const double e = errors[r * factor.size + j];
      sum += factor.added[static_cast<std::size_t>(j)] * e * e;
    }
  }
  return sum;
}

double sum_of_squares(const float* x, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

/// Whether the scale of a group is chosen when its columns are reached.
bool chooses_scales(const Scheme& scheme) {
  return scheme.granularity == Granularity::group && scheme.act_order != ActOrder::weight;
}

/// Rows [first, last) of one matrix under GPTQ.
class Rows {
 public:
  Rows(MatrixView weight, const Factor& factor, std::int64_t first, std::int64_t last,
       Quantised& out)
      : factor_(factor),
        first_(first),
        num_rows_(last - first),
        out_(out),
        errors_(ordered_rows(weight, factor, first, last)) {}

  /// @return the output error
  double run() {
    double damped = 0;
    for (std::int64_t column = 0; column < factor_.size; column += factor_.block)
      damped += run_block(column);
    return damped - added_part(factor_, errors_.data(), num_rows_);
  }

 private:
  // errors_ holds the weights themselves from `column` on, and W - Q before it.
  double run_block(std::int64_t column) {
    const std::int64_t n = factor_.size, width = factor_.width(column);
    const auto size = static_cast<std::size_t>(num_rows_ * width);
    std::vector<float> due(size, 0.0f), updated(size);
    add_product(factor_, errors_.data(), num_rows_, column, column, due.data());
    for (std::int64_t r = 0; r < num_rows_; ++r)
      std::copy_n(errors_.data() + r * n + column, width, updated.data() + r * width);
    dense::functions().multiply_add(1, {due.data(), num_rows_, width, width}, Op::as_is,
                                    {factor_.inverse_of(column), width, width, width}, Op::as_is,
                                    {updated.data(), num_rows_, width, width});
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(width));
    double error = 0;
    for (std::int64_t r = 0; r < num_rows_; ++r) {
      float* weights = updated.data() + r * width;
      choose_codes(r, column, weights, due.data() + r * width, codes.data());
      error += sum_of_squares(due.data() + r * width, width);
      for (std::int64_t j = 0; j < width; ++j) {
        const std::int64_t to = factor_.order[static_cast<std::size_t>(column + j)];
        out_.codes[static_cast<std::size_t>((first_ + r) * n + to)] =
            codes[static_cast<std::size_t>(j)];
        errors_[static_cast<std::size_t>(r * n + column + j)] -= weights[j];
      }
    }
    return error;
  }

  void choose_codes(std::int64_t r, std::int64_t column, float* weights, float* errors,
                    std::uint8_t* codes) {
    const bool one = out_.scheme.granularity == Granularity::tensor;
    const std::int64_t scales = one ? 0 : (first_ + r) * out_.groups();
    dense::functions().compensate({.weights = weights,
                                   .width = factor_.width(column),
                                   .inverse = factor_.inverse_of(column),
                                   .format = format_of(out_.scheme),
                                   .group = factor_.group.data() + column,
                                   .choose_scales = chooses_scales(out_.scheme),
                                   .scales = out_.scales.data() + scales,
                                   .zero_points = out_.zero_points.data() + scales,
                                   .codes = codes,
                                   .errors = errors});
  }

  const Factor& factor_;
  std::int64_t first_, num_rows_;
  Quantised& out_;
  std::vector<float> errors_;  // [num_rows, columns]
};

/// Sums f(first, last) over slices of rows in their order, so that it is the same for any number of
/// threads.
template <typename F>
double sum_over_rows(std::int64_t rows, int num_threads, const F& f) {
  std::vector<double> parts(static_cast<std::size_t>((rows + kGrain - 1) / kGrain));
  kernels::for_slices(num_threads, rows, kGrain, [&](std::int64_t first, std::int64_t last) {
    parts[static_cast<std::size_t>(first / kGrain)] = f(first, last);
  });
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

double error_of(MatrixView weight, const Quantised& quantised, const Factor& factor,
                int num_threads) {
  const std::int64_t n = factor.size;
  return sum_over_rows(weight.rows, num_threads, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t num_rows = last - first;
    std::vector<float> values(static_cast<std::size_t>(num_rows * n));
    quantised.dequantise(first, last, values.data());
    std::vector<float> errors = ordered_rows(weight, factor, first, last);
    for (std::int64_t i = 0; i < num_rows * n; ++i) {
      const std::int32_t column = factor.order[static_cast<std::size_t>(i % n)];
      errors[static_cast<std::size_t>(i)] -= values[static_cast<std::size_t>(i / n * n + column)];
    }
    double damped = 0;
    std::vector<float> product(static_cast<std::size_t>(num_rows * factor.block));
    for (std::int64_t column = 0; column < n; column += factor.block) {
      std::fill(product.begin(), product.end(), 0.0f);
      add_product(factor, errors.data(), num_rows, column + factor.width(column), column,
                  product.data());
      damped += sum_of_squares(product.data(), num_rows * factor.width(column));
    }
    return damped - added_part(factor, errors.data(), num_rows);
  });
}

Quantised start(MatrixView weight, const Scheme& scheme, const Factor& factor, int num_threads) {
  Quantised out;
  out.rows = weight.rows;
  out.columns = weight.columns;
  out.scheme = scheme;
  out.method = Method::gptq;
  out.damping = factor.damping;
  out.codes.resize(static_cast<std::size_t>(weight.rows * weight.columns));
  if (!chooses_scales(scheme)) {
    choose_scales(weight, num_threads, out);
    return out;
  }
  const auto count = static_cast<std::size_t>(weight.rows * out.groups());
  out.scales.resize(count);
  out.zero_points.resize(count);
  if (scheme.act_order == ActOrder::group) {
    out.group_index.resize(factor.group.size());
    for (std::size_t j = 0; j < factor.group.size(); ++j)
      out.group_index[static_cast<std::size_t>(factor.order[j])] = factor.group[j];
  }
  return out;
}

}  // namespace

Quantised gptq(MatrixView weight, const Scheme& scheme, const LinearStatistics& inputs,
               int num_threads) {
  if (inputs.hessian->diagonal().maxCoeff() == 0) {  // an expert that no token reached
    Quantised nearest = round_to_nearest(weight, scheme, num_threads);
    nearest.output_error = nearest.rtn_output_error = 0;
    return nearest;
  }
  const Factor factor = factorise(*inputs.hessian, scheme, num_threads);
  Quantised out = start(weight, scheme, factor, num_threads);
  const double error =
      sum_over_rows(weight.rows, num_threads, [&](std::int64_t first, std::int64_t last) {
        return Rows(weight, factor, first, last, out).run();
      });
  check_scales(out);
  Quantised nearest = round_to_nearest(weight, scheme, num_threads);
  const double nearest_error = error_of(weight, nearest, factor, num_threads);
  out.output_error = error;
  out.rtn_output_error = nearest_error;
  // Sums in f32 are good for some six digits; who is ahead by less is found out exactly.
  if (std::abs(error - nearest_error) <= 1e-3 * nearest_error) {
    out.output_error = output_error(weight, out, inputs);
    out.rtn_output_error = output_error(weight, nearest, inputs);
  }
  if (*out.output_error <= *out.rtn_output_error) return out;
  nearest.damping = out.damping;
  nearest.output_error = nearest.rtn_output_error = out.rtn_output_error;
  return nearest;
}

}  // namespace tessera::quant
