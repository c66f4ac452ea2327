#include "tessera/kernels/dense.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "aligned.h"
#include "forms.h"
#include "slices.h"
#include "tessera/core/error.h"
#include "tessera/kernels/moments.h"
#include "tessera/weights/tensor.h"

namespace tessera::linear {
namespace {

using kernels::Real;

class DenseLinear final : public Linear {
 public:
  DenseLinear(const Stack& stack, Real type, const std::string& of, int num_threads)
      : Linear(stack.rows(), stack.columns()),
        type_(type),
        stored_as_(of.empty() ? stored_as(stack) : of),
        data_(kernels::dense_weights_bytes(stack.rows(), stack.columns(), type)) {
    for_rows(num_threads, stack.rows(), [&](std::int64_t first, std::int64_t last) {
      thread_local std::vector<float> room;
      kernels::Matrix rows = stack.view(first, last, room);
      stack.check_finite(first, rows);
      rows.data = static_cast<const std::byte*>(rows.data) +
                  stack.first_column() * kernels::size_of(rows.type);
      rows.columns = stack.columns();
      if (type == Real::f16 && rows.type != type) check_range(stack, first, rows);
      std::byte* to = data_.data() + first * stack.columns() * kernels::size_of(type);
      expect_ok(kernels::pack_dense_weights(rows, type, {0, rows.rows}, to), "packing weights");
    });
    stack.release();
  }

  void apply(const float* x, std::int64_t x_stride, std::int64_t tokens, float* out,
             std::int64_t out_stride, int num_threads) const override {
    check_product(*this, x, x_stride, tokens, out, out_stride);
    if (tokens == 0) return;
    const kernels::Matrix activations{x, Real::f32, tokens, in_features(), x_stride};
    multiply(num_threads, out_features(), [&](kernels::Rows rows) {
      return kernels::dense_gemm(activations, weights(), rows, out, out_stride);
    });
  }

  std::int64_t bytes() const override { return data_.size(); }
  std::string describe() const override { return std::string(name_of(type_)) + stored_as_; }

  void dequantise(std::int64_t first, std::int64_t last, float* out) const override {
    constexpr std::int64_t kBlock = kernels::kRowsPerBlock;
    const auto* halves = reinterpret_cast<const std::uint16_t*>(data_.data());
    const auto* floats = reinterpret_cast<const float*>(data_.data());
    for (std::int64_t row = first; row < last; ++row) {
      for (std::int64_t c = 0; c < in_features(); ++c) {
        const std::int64_t i = (row / kBlock * in_features() + c) * kBlock + row % kBlock;
        *out++ = type_ == Real::f32   ? floats[i]
                 : type_ == Real::f16 ? kernels::f16_to_f32(halves[i])
                                      : kernels::bf16_to_f32(halves[i]);
      }
    }
  }

 private:
  kernels::DenseWeights weights() const {
    return {out_features(), in_features(), type_, data_.data()};
  }

  // Of what is not multiplied in the bits that it has in the file.
  static std::string stored_as(const Stack& stack) {
    for (const weights::LinearWeight& part : stack.parts()) {
      if (part.scaled != weights::Scaled::no) return fmt::format(" of {}", name_of(part.scaled));
    }
    return "";
  }

  static void check_range(const Stack& stack, std::int64_t first, const kernels::Matrix& rows) {
    constexpr float kTooLarge = 65520;  // from there on f16 rounds to infinity
    std::vector<kernels::Range> ranges(static_cast<std::size_t>(rows.rows));
    expect_ok(kernels::group_ranges(rows, {0, rows.rows}, 0, ranges.data()), "ranges of weights");
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      const kernels::Range range = ranges[static_cast<std::size_t>(row)];
      if (range.min > -kTooLarge && range.max < kTooLarge) continue;
      refuse_row(stack, first + row, kTooLarge);
    }
  }

  [[noreturn]] static void refuse_row(const Stack& stack, std::int64_t output, float too_large) {
    std::vector<float> values(static_cast<std::size_t>(stack.columns()));
    stack.read(output, output + 1, values.data());
    const auto bad =
        std::ranges::find_if(values, [&](float value) { return std::abs(value) >= too_large; });
    const Stack::Place place = stack.place_of(output);
    refuse(ErrorCode::out_of_range, stack.name(place.part),
           "weight [{}, {}] is {}, beyond the 65504 that f16 holds; take dtype bf16 or f32",
           place.row, stack.first_column() + (bad - values.begin()), *bad);
  }

  Real type_;
  std::string stored_as_;
  Aligned data_;
};

// f32 where the parts differ.
Real kept_type(const Stack& stack, Real wanted) {
  if (wanted != Real::f32 || stack.parts().empty()) return wanted;
  const auto first = weights::real_of(stack.parts().front().tensor->dtype);
  for (const weights::LinearWeight& part : stack.parts()) {
    if (part.codes || weights::real_of(part.tensor->dtype) != first) return wanted;
  }
  return first.value_or(wanted);
}

}  // namespace

std::unique_ptr<Linear> make_dense(const Stack& stack, const LinearForm& form, int num_threads,
                                   const std::string& of) {
  return std::make_unique<DenseLinear>(stack, kept_type(stack, form.dtype), of, num_threads);
}

}  // namespace tessera::linear
