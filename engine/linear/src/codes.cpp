#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "aligned.h"
#include "forms.h"
#include "slices.h"
#include "tessera/core/error.h"
#include "tessera/kernels/gemm.h"
#include "tessera/kernels/gemm_a8.h"

namespace tessera::linear {
namespace {

using kernels::QuantFormat;
using quant::Quantised;

// Codes of a stack, in the order of its outputs; gone once they are packed.
struct Codes {
  Codes(const Stack& stack, QuantFormat quant_format)
      : rows(stack.rows()),
        columns(stack.columns()),
        first_column(stack.first_column()),
        groups(kernels::num_groups(columns, quant_format.group_size)),
        first_group(quant_format.group_size == 0 ? 0 : stack.first_group(quant_format.group_size)),
        format(quant_format),
        codes(std::make_unique_for_overwrite<std::uint8_t[]>(size(rows * columns))),
        scales(size(rows * groups)),
        zero_points(size(rows * groups)) {}

  static std::size_t size(std::int64_t i) { return static_cast<std::size_t>(i); }

  /// Of row `from` of `part`, whole rows, what is kept becomes output `to`.
  void copy_row(const Quantised& part, std::int64_t from, std::int64_t to) {
    std::copy_n(part.codes.begin() + from * part.columns + first_column, columns,
                codes.get() + to * columns);
    const bool one = part.scheme.granularity == quant::Granularity::tensor;
    const std::int64_t before = from * part.groups() + first_group;
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::size_t scale = one ? 0 : size(before + g);
      scales[size(to * groups + g)] = part.scales[scale];
      zero_points[size(to * groups + g)] = part.zero_points[scale];
    }
  }

  kernels::Status pack(kernels::Rows slice, void* data) const {
    return kernels::pack_weights(codes.get(), rows, columns, format, scales.data(),
                                 zero_points.data(), slice, data);
  }

  std::int64_t rows, columns, first_column, groups, first_group;
  QuantFormat format;
  std::unique_ptr<std::uint8_t[]> codes;
  std::vector<float> scales;
  std::vector<std::uint8_t> zero_points;
};

class CodesLinear final : public Linear {
 public:
  /// `fill(codes, first, last)` makes the codes of some outputs.
  template <class Fill>
  CodesLinear(const Stack& stack, const quant::Scheme& scheme, bool round_activations,
              std::string description, std::vector<float> input_scales, int num_threads,
              const Fill& fill)
      : Linear(stack.rows(), stack.columns()),
        format_(quant::format_of(scheme)),
        round_activations_(round_activations),
        description_(std::move(description)),
        input_scales_(std::move(input_scales)),
        data_(kernels::packed_weights_bytes(stack.rows(), stack.columns(), format_)) {
    Codes codes(stack, format_);
    for_rows(num_threads, stack.rows(), [&](std::int64_t first, std::int64_t last) {
      fill(codes, first, last);
      expect_ok(codes.pack({first, last}, data_.data()), "packing codes");
    });
    stack.release();
  }

  void apply(const float* x, std::int64_t x_stride, std::int64_t tokens, float* out,
             std::int64_t out_stride, int num_threads) const override {
    check_product(*this, x, x_stride, tokens, out, out_stride);
    if (tokens == 0) return;
    kernels::Matrix activations{x, kernels::Real::f32, tokens, in_features(), x_stride};
    if (!input_scales_.empty()) activations = scaled(x, x_stride, tokens, num_threads);
    multiply(num_threads, out_features(), [&](kernels::Rows rows) {
      return round_activations_
                 ? kernels::dequant_gemm_a8(activations, weights(), rows, out, out_stride)
                 : kernels::dequant_gemm(activations, weights(), rows, out, out_stride);
    });
  }

  std::int64_t bytes() const override {
    return data_.size() + static_cast<std::int64_t>(input_scales_.size() * sizeof(float));
  }

  std::string describe() const override {
    return description_ + (round_activations_ ? ", 8-bit activations" : "");
  }

  void dequantise(std::int64_t first, std::int64_t last, float* out) const override {
    expect_ok(kernels::unpack_weights(weights(), {first, last}, out), "unpacking codes");
    if (input_scales_.empty()) return;
    for (std::int64_t row = first; row < last; ++row) {
      for (const float scale : input_scales_) *out++ /= scale;
    }
  }

  std::optional<LinearCodes> codes() const override {
    const std::int64_t groups = kernels::num_groups(in_features(), format_.group_size);
    LinearCodes out;
    out.rows = out_features();
    out.columns = in_features();
    out.format = format_;
    out.codes.resize(Codes::size(out_features() * in_features()));
    out.scales.resize(Codes::size(out_features() * groups));
    out.zero_points.resize(out.scales.size());
    out.input_scales = input_scales_;
    out.description = description_;
    expect_ok(kernels::unpack_codes(weights(), {0, out_features()}, out.codes.data(),
                                    out.scales.data(), out.zero_points.data()),
              "unpacking codes");
    return out;
  }

 private:
  kernels::PackedWeights weights() const {
    return {out_features(), in_features(), format_, data_.data()};
  }

  // AWQ's scales are those of the inputs: the weights were multiplied by them before rounding.
  kernels::Matrix scaled(const float* x, std::int64_t x_stride, std::int64_t tokens,
                         int num_threads) const {
    constexpr std::int64_t kTokens = 16;
    thread_local std::vector<float> scratch;
    scratch.resize(std::max(scratch.size(), Codes::size(tokens * in_features())));
    float* to = scratch.data();
    const auto slice = [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t t = first; t < last; ++t) {
        for (std::int64_t c = 0; c < in_features(); ++c) {
          to[t * in_features() + c] = x[t * x_stride + c] / input_scales_[Codes::size(c)];
        }
      }
    };
    kernels::for_slices(threads_of(num_threads), tokens, kTokens, std::ref(slice));
    return {to, kernels::Real::f32, tokens, in_features(), in_features()};
  }

  QuantFormat format_;
  bool round_activations_;
  std::string description_;
  std::vector<float> input_scales_;
  Aligned data_;
};

// Round-to-nearest asks of a row no more than the row: it is read, rounded and packed in one go.
std::unique_ptr<Linear> make_streamed(const Stack& stack, const quant::Scheme& scheme,
                                      const LinearForm& form, std::string description,
                                      int num_threads) {
  const auto fill = [&](Codes& codes, std::int64_t first, std::int64_t last) {
    thread_local std::vector<float> room;
    thread_local Quantised some;
    const kernels::Matrix rows = stack.view(first, last, room);
    try {
      quant::round_rows(rows, scheme, some);
    } catch (const Error& error) {
      stack.check_finite(first, rows);
      rethrow_with(stack.name(stack.place_of(first).part), error);
    }
    for (std::int64_t row = 0; row < rows.rows; ++row) codes.copy_row(some, row, first + row);
  };
  return std::make_unique<CodesLinear>(stack, scheme, form.activation_bitwidth == 8,
                                       std::move(description), std::vector<float>{}, num_threads,
                                       fill);
}

std::unique_ptr<Linear> make_of_parts(const Stack& stack, const LinearForm& form,
                                      const std::vector<Quantised>& parts, std::string description,
                                      int num_threads) {
  const Quantised& first_part = parts.front();
  std::vector<float> input_scales = first_part.input_scales;
  if (!input_scales.empty()) {
    const auto first = input_scales.begin() + stack.first_column();
    input_scales = std::vector<float>(first, first + stack.columns());
  }
  return std::make_unique<CodesLinear>(
      stack, first_part.scheme, form.activation_bitwidth == 8, std::move(description),
      std::move(input_scales), num_threads,
      [&](Codes& codes, std::int64_t first, std::int64_t last) {
        for (std::int64_t output = first; output < last; ++output) {
          const Stack::Place from = stack.place_of(output);
          codes.copy_row(parts[Codes::size(from.part)], from.row, output);
        }
      });
}

std::vector<Quantised> quantise_parts(const Stack& stack, const quant::Scheme& scheme,
                                      const LinearForm& form, const quant::LinearStatistics* inputs,
                                      int num_threads) {
  std::vector<std::vector<float>> values;
  std::vector<quant::MatrixView> views;
  for (std::int64_t part = 0; part < stack.num_parts(); ++part) {
    values.push_back(stack.read_part(part, num_threads));
    views.push_back({values.back().data(), stack.part_rows(part), stack.whole_columns()});
  }
  stack.release();
  try {
    return quant::quantise(views, scheme, form.method, inputs, num_threads);
  } catch (const Error& error) {
    rethrow_with(stack.name(0), error);
  }
}

}  // namespace

std::unique_ptr<Linear> make_codes(const Stack& stack, const LinearForm& form,
                                   const quant::LinearStatistics* inputs, int num_threads) {
  quant::Scheme scheme = form.scheme;
  scheme.bitwidth = form.bitwidth;
  std::string description =
      fmt::format("{}-bit {}, {}", scheme.bitwidth, name_of(form.method), describe(scheme));
  const bool by_rows = form.method == quant::Method::rtn &&
                       scheme.granularity != quant::Granularity::tensor &&
                       scheme.rounding == kernels::Rounding::nearest;
  if (by_rows) return make_streamed(stack, scheme, form, std::move(description), num_threads);
  return make_of_parts(stack, form, quantise_parts(stack, scheme, form, inputs, num_threads),
                       std::move(description), num_threads);
}

std::unique_ptr<Linear> make_codes(const Stack& stack, const LinearForm& form,
                                   const std::vector<Quantised>& parts, int num_threads) {
  const quant::Scheme& scheme = parts.front().scheme;
  return make_of_parts(stack, form, parts,
                       fmt::format("{}-bit as stored, {}", scheme.bitwidth, describe(scheme)),
                       num_threads);
}

}  // namespace tessera::linear
