#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <vector>

#include "aligned.h"
#include "forms.h"
#include "slices.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/kernels/ggml_weights.h"
#include "tessera/kernels/moments.h"
#include "tessera/weights/ranges.h"

namespace tessera::linear {
namespace {

using kernels::GgmlType;
using weights::DType;

class BlocksLinear final : public Linear {
 public:
  BlocksLinear(const Stack& stack, bool round_activations, int num_threads)
      : Linear(stack.rows(), stack.columns()),
        dtype_(stack.parts().front().tensor->dtype),
        type_(*weights::ggml_type_of(dtype_)),
        round_activations_(round_activations),
        data_(kernels::ggml_weights_bytes(stack.rows(), stack.columns(), type_)) {
    const std::vector<const void*> rows = rows_of(stack);
    for_rows(num_threads, stack.rows(), [&](std::int64_t first, std::int64_t last) {
      expect_ok(kernels::pack_ggml_weights(rows.data(), stack.rows(), stack.columns(), type_,
                                           {first, last}, data_.data()),
                "packing blocks");
      check_finite(stack, first, last);
    });
    stack.release();
  }

  void apply(const float* x, std::int64_t x_stride, std::int64_t tokens, float* out,
             std::int64_t out_stride, int num_threads) const override {
    check_product(*this, x, x_stride, tokens, out, out_stride);
    if (tokens == 0) return;
    const kernels::Matrix activations{x, kernels::Real::f32, tokens, in_features(), x_stride};
    multiply(num_threads, out_features(), [&](kernels::Rows rows) {
      return round_activations_
                 ? kernels::ggml_gemm_a8(activations, weights(), rows, out, out_stride)
                 : kernels::ggml_gemm(activations, weights(), rows, out, out_stride);
    });
  }

  std::int64_t bytes() const override { return data_.size(); }

  std::string describe() const override {
    return lower(weights::to_string(dtype_)) + " as stored" +
           (round_activations_ ? ", 8-bit activations" : "");
  }

  void dequantise(std::int64_t first, std::int64_t last, float* out) const override {
    expect_ok(kernels::unpack_ggml_weights(weights(), {first, last}, out), "unpacking blocks");
  }

  std::optional<LinearCodes> codes() const override {
    LinearCodes out;
    out.rows = out_features();
    out.columns = in_features();
    if (!kernels::ggml_code_format(type_, &out.format)) return std::nullopt;
    const auto groups = kernels::num_groups(in_features(), out.format.group_size);
    out.codes.resize(static_cast<std::size_t>(out_features() * in_features()));
    out.scales.resize(static_cast<std::size_t>(out_features() * groups));
    out.zero_points.resize(out.scales.size());
    out.description = lower(weights::to_string(dtype_)) + " as stored";
    expect_ok(kernels::unpack_ggml_codes(weights(), {0, out_features()}, out.codes.data(),
                                         out.scales.data(), out.zero_points.data()),
              "unpacking blocks");
    return out;
  }

 private:
  kernels::GgmlWeights weights() const {
    return {out_features(), in_features(), type_, data_.data()};
  }

  static std::vector<const void*> rows_of(const Stack& stack) {
    std::vector<const std::byte*> tensors;
    for (const weights::LinearWeight& part : stack.parts())
      tensors.push_back(stack.weights()->bytes(*part.tensor).data());
    const weights::DTypeInfo& info = weights::info_of(stack.parts().front().tensor->dtype);
    stack.first_group(info.block_elements);
    std::vector<const void*> rows;
    for (std::int64_t output = 0; output < stack.rows(); ++output) {
      const Stack::Place place = stack.place_of(output);
      const auto index = static_cast<std::size_t>(place.part);
      const weights::LinearWeight& part = stack.parts()[index];
      const std::int64_t first =
          part.offset + part.stored_row(place.row) * part.in_features + stack.first_column();
      rows.push_back(tensors[index] + first / info.block_elements * info.block_bytes);
    }
    return rows;
  }

  // By the scales of the blocks where the reader knows the type, else by the numbers.
  void check_finite(const Stack& stack, std::int64_t first, std::int64_t last) const {
    const bool readable = weights::info_of(dtype_).readable;
    thread_local std::vector<float> row;
    row.resize(static_cast<std::size_t>(in_features()));
    for (std::int64_t output = first; output < last; ++output) {
      const Stack::Place place = stack.place_of(output);
      if (readable && is_finite(stack, place)) continue;
      dequantise(output, output + 1, row.data());
      stack.check_finite(place.part, place.row, row);
    }
  }

  static bool is_finite(const Stack& stack, Stack::Place place) {
    kernels::Range range{};
    weights::ranges_of_rows(*stack.weights(), stack.parts()[static_cast<std::size_t>(place.part)],
                            place.row, 1, 0, {&range, 1});
    return std::isfinite(range.min);
  }

  DType dtype_;
  GgmlType type_;
  bool round_activations_;
  Aligned data_;
};

}  // namespace

bool has_block_kernel(DType dtype) { return weights::ggml_type_of(dtype).has_value(); }

std::unique_ptr<Linear> make_blocks(const Stack& stack, const LinearForm& form, int num_threads) {
  return std::make_unique<BlocksLinear>(stack, form.activation_bitwidth == 8, num_threads);
}

}  // namespace tessera::linear
