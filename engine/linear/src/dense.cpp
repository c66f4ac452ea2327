#include "tessera/kernels/dense.h"

#include <cmath>
#include <vector>

#include "aligned.h"
#include "forms.h"
#include "slices.h"
#include "tessera/core/error.h"
#include "tessera/weights/tensor.h"

namespace tessera::linear {
namespace {

using kernels::Real;

class DenseLinear final : public Linear {
 public:
  DenseLinear(const Stack& stack, Real type, int num_threads)
      : Linear(stack.rows(), stack.columns()),
        type_(type),
        data_(kernels::dense_weights_bytes(stack.rows(), stack.columns(), type)) {
    std::vector<float> values(static_cast<std::size_t>(stack.rows() * stack.columns()));
    const kernels::Matrix matrix{values.data(), Real::f32, stack.rows(), stack.columns(),
                                 stack.columns()};
    for_rows(num_threads, stack.rows(), [&](std::int64_t first, std::int64_t last) {
      float* rows = values.data() + first * stack.columns();
      stack.read(first, last, rows);
      if (type == Real::f16)
        check_range(stack, first, {rows, values.data() + last * stack.columns()});
      expect_ok(kernels::pack_dense_weights(matrix, type, {first, last}, data_.data()),
                "packing weights");
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
  std::string describe() const override { return std::string(name_of(type_)); }

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

  static void check_range(const Stack& stack, std::int64_t first, std::span<const float> values) {
    constexpr float kTooLarge = 65520;  // from there on f16 rounds to infinity
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::abs(values[i]) < kTooLarge) continue;
      const auto at = static_cast<std::int64_t>(i);
      const Stack::Place place = stack.place_of(first + at / stack.columns());
      refuse(ErrorCode::out_of_range, stack.name(place.part),
             "weight [{}, {}] is {}, beyond the 65504 that f16 holds; take dtype bf16 or f32",
             place.row, stack.first_column() + at % stack.columns(), values[i]);
    }
  }

  Real type_;
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

std::unique_ptr<Linear> make_dense(const Stack& stack, const LinearForm& form, int num_threads) {
  return std::make_unique<DenseLinear>(stack, kept_type(stack, form.dtype), num_threads);
}

}  // namespace tessera::linear
