#include "tessera/kernels/int8.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <vector>

#include "aligned.h"
#include "forms.h"
#include "slices.h"
#include "tessera/core/error.h"

namespace tessera::linear {
namespace {

constexpr std::int64_t kBlock = kernels::kRowsPerBlock;

// Codes of a product's activations, and which of a token's are outliers.
struct Activations {
  std::vector<std::int8_t> codes;           ///< [tokens][columns]
  std::vector<float> scales;                ///< [tokens]
  std::vector<std::uint8_t> is_outlier;     ///< [columns], of one token
  std::vector<std::int32_t> outliers;       ///< columns, token after token
  std::vector<std::int64_t> first_outlier;  ///< [tokens + 1], into `outliers`
};

class Int8Linear final : public Linear {
 public:
  /// `fill(codes, scales, first, last)` makes the codes of some outputs.
  template <class Fill>
  Int8Linear(const Stack& stack, double threshold, std::string description, int num_threads,
             const Fill& fill)
      : Linear(stack.rows(), stack.columns()),
        threshold_(static_cast<float>(threshold)),
        description_(std::move(description)),
        scales_(size(stack.rows())),
        packed_(kernels::int8_weights_bytes(stack.rows(), stack.columns())) {
    const std::int64_t rows = stack.rows(), columns = stack.columns();
    const auto codes = std::make_unique_for_overwrite<std::int8_t[]>(size(rows * columns));
    for_rows(num_threads, rows, [&](std::int64_t first, std::int64_t last) {
      fill(codes.get() + first * columns, scales_.data() + first, first, last);
      expect_ok(kernels::pack_int8_weights(codes.get(), rows, columns, {first, last}, packed()),
                "packing int8 weights");
    });
    stack.release();
  }

  void apply(const float* x, std::int64_t x_stride, std::int64_t tokens, float* out,
             std::int64_t out_stride, int num_threads) const override {
    check_product(*this, x, x_stride, tokens, out, out_stride);
    if (tokens == 0) return;
    thread_local Activations scratch;
    Activations& a = scratch;  // the caller's, for all threads
    quantise(x, x_stride, tokens, num_threads, a);
    const kernels::Int8Weights weights{out_features(), in_features(), packed(), scales_.data()};
    multiply(num_threads, out_features(), [&](kernels::Rows rows) {
      const kernels::Status status = kernels::int8_gemm(a.codes.data(), a.scales.data(), tokens,
                                                        weights, rows, out, out_stride);
      for (std::int64_t t = 0; t < tokens; ++t) {
        const std::int64_t first = a.first_outlier[size(t)];
        const std::span columns(a.outliers.data() + first,
                                size(a.first_outlier[size(t) + 1] - first));
        if (!columns.empty()) add_outliers(x + t * x_stride, columns, rows, out + t * out_stride);
      }
      return status;
    });
  }

  std::int64_t bytes() const override {
    return packed_.size() + static_cast<std::int64_t>(scales_.size() * sizeof(float));
  }

  std::string describe() const override {
    return description_ +
           (threshold_ > 0 ? fmt::format(", outliers from {:g}", threshold_) : ", no outliers");
  }

  void dequantise(std::int64_t first, std::int64_t last, float* out) const override {
    for (std::int64_t row = first; row < last; ++row) {
      for (std::int64_t c = 0; c < in_features(); ++c) {
        *out++ =
            scales_[size(row)] * static_cast<float>(codes_of(row / kBlock, c)[row % kBlock * 4]);
      }
    }
  }

  std::optional<LinearCodes> codes() const override {
    LinearCodes out;
    out.rows = out_features();
    out.columns = in_features();
    out.format = {8, true, 0, kernels::Real::f32};
    out.scales = scales_;
    out.zero_points.assign(scales_.size(), 128);
    out.int8 = true;
    out.outlier_threshold = threshold_;
    out.description = describe();
    out.codes.reserve(size(out_features() * in_features()));
    for (std::int64_t row = 0; row < out_features(); ++row) {
      for (std::int64_t c = 0; c < in_features(); ++c) {
        const int code = codes_of(row / kBlock, c)[row % kBlock * 4];
        out.codes.push_back(static_cast<std::uint8_t>(code + 128));
      }
    }
    return out;
  }

 private:
  static std::size_t size(std::int64_t i) { return static_cast<std::size_t>(i); }
  std::int8_t* packed() { return reinterpret_cast<std::int8_t*>(packed_.data()); }
  const std::int8_t* packed() const { return reinterpret_cast<const std::int8_t*>(packed_.data()); }

  /// Of a column: those of the rows of a block stand 4 apart (int8.h).
  const std::int8_t* codes_of(std::int64_t block, std::int64_t column) const {
    const std::int64_t quads = (in_features() + 3) / 4;
    return packed() + (block * quads + column / 4) * kBlock * 4 + column % 4;
  }

  void quantise(const float* x, std::int64_t x_stride, std::int64_t tokens, int num_threads,
                Activations& a) const {
    a.codes.resize(std::max(a.codes.size(), size(tokens * in_features())));
    a.scales.resize(std::max(a.scales.size(), size(tokens)));
    a.first_outlier.assign(size(tokens) + 1, 0);
    a.outliers.clear();
    const kernels::Matrix matrix{x, kernels::Real::f32, tokens, in_features(), x_stride};
    if (threshold_ > 0) {
      for (std::int64_t t = 0; t < tokens; ++t) {
        quantise_around_outliers(matrix, t, a);
        a.first_outlier[size(t) + 1] = static_cast<std::int64_t>(a.outliers.size());
      }
      return;
    }
    constexpr std::int64_t kTokens = 16;
    const auto slice = [&](std::int64_t first, std::int64_t last) {
      kernels::quantise_rows(matrix, {first, last}, nullptr, a.codes.data(), a.scales.data());
    };
    kernels::for_slices(threads_of(num_threads), tokens, kTokens, std::ref(slice));
  }

  void quantise_around_outliers(kernels::Matrix matrix, std::int64_t token, Activations& a) const {
    const float* x = static_cast<const float*>(matrix.data) + token * matrix.stride;
    a.is_outlier.assign(size(in_features()), 0);
    const std::size_t before = a.outliers.size();
    for (std::int64_t c = 0; c < in_features(); ++c) {
      if (!(std::abs(x[c]) >= threshold_)) continue;
      a.is_outlier[size(c)] = 1;
      a.outliers.push_back(static_cast<std::int32_t>(c));
    }
    expect_ok(kernels::quantise_rows(matrix, {token, token + 1},
                                     a.outliers.size() == before ? nullptr : a.is_outlier.data(),
                                     a.codes.data(), a.scales.data()),
              "rounding activations");
  }

  void add_outliers(const float* x, std::span<const std::int32_t> columns, kernels::Rows rows,
                    float* out) const {
    for (std::int64_t row = rows.first; row < rows.last; row += kBlock) {
      float sums[kBlock] = {};
      for (const std::int32_t column : columns) {
        const std::int8_t* codes = codes_of(row / kBlock, column);
        for (std::int64_t r = 0; r < kBlock; ++r)
          sums[r] += x[column] * static_cast<float>(codes[r * 4]);
      }
      for (std::int64_t r = 0; r < std::min(kBlock, rows.last - row); ++r) {
        out[row + r] += scales_[size(row + r)] * sums[r];
      }
    }
  }

  float threshold_;
  std::string description_;
  std::vector<float> scales_;
  Aligned packed_;
};

quant::Scheme int8_scheme() { return {.bitwidth = 8, .granularity = quant::Granularity::channel}; }

std::unique_ptr<Linear> make_int8_of_parts(const Stack& stack, const LinearForm& form,
                                           const std::vector<quant::Quantised>& parts,
                                           std::string description, int num_threads) {
  const std::int64_t columns = stack.columns(), first_column = stack.first_column();
  return std::make_unique<Int8Linear>(
      stack, form.outlier_threshold, std::move(description), num_threads,
      [&](std::int8_t* codes, float* scales, std::int64_t first, std::int64_t last) {
        for (std::int64_t output = first; output < last; ++output) {
          const Stack::Place from = stack.place_of(output);
          const quant::Quantised& part = parts[static_cast<std::size_t>(from.part)];
          *scales++ = part.scales[static_cast<std::size_t>(part.scale_index(from.row, 0))];
          const std::uint8_t* row = part.codes.data() + from.row * part.columns + first_column;
          for (std::int64_t c = 0; c < columns; ++c)
            *codes++ = static_cast<std::int8_t>(row[c] - 128);
        }
      });
}

std::unique_ptr<Linear> make_rounded(const Stack& stack, const LinearForm& form, int num_threads) {
  const std::int64_t columns = stack.columns(), whole = stack.whole_columns();
  return std::make_unique<Int8Linear>(
      stack, form.outlier_threshold, "W8A8 rtn", num_threads,
      [&](std::int8_t* codes, float* scales, std::int64_t first, std::int64_t last) {
        thread_local std::vector<float> values;
        thread_local std::vector<std::int8_t> rounded;  // whole rows, where they are cut
        const std::int64_t rows = last - first;
        const auto count = static_cast<std::size_t>(rows * whole);
        values.resize(std::max(values.size(), count));
        if (columns < whole) rounded.resize(std::max(rounded.size(), count));
        stack.read_whole(first, last, values.data());
        const kernels::Matrix matrix{values.data(), kernels::Real::f32, rows, whole, whole};
        expect_ok(kernels::quantise_rows(matrix, {0, rows}, nullptr,
                                         columns < whole ? rounded.data() : codes, scales),
                  "rounding weights");
        for (std::int64_t row = 0; columns < whole && row < rows; ++row) {
          std::copy_n(rounded.data() + row * whole + stack.first_column(), columns,
                      codes + row * columns);
        }
      });
}

}  // namespace

std::unique_ptr<Linear> make_int8(const Stack& stack, const LinearForm& form,
                                  const quant::LinearStatistics* inputs, int num_threads) {
  if (form.method == quant::Method::rtn) return make_rounded(stack, form, num_threads);
  std::vector<quant::Quantised> parts;
  for (std::int64_t part = 0; part < stack.num_parts(); ++part) {
    const std::vector<float> values = stack.read_part(part, num_threads);
    try {
      parts.push_back(quant::quantise({values.data(), stack.part_rows(part), stack.whole_columns()},
                                      int8_scheme(), form.method, inputs, num_threads));
    } catch (const Error& error) {
      rethrow_with(stack.name(part), error);
    }
  }
  return make_int8_of_parts(stack, form, parts, fmt::format("W8A8 {}", name_of(form.method)),
                            num_threads);
}

std::unique_ptr<Linear> make_int8(const Stack& stack, const LinearForm& form,
                                  const std::vector<quant::Quantised>& parts, int num_threads) {
  return make_int8_of_parts(stack, form, parts, "W8A8 as stored", num_threads);
}

}  // namespace tessera::linear
