#include "tessera/linear/product_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>

#include "aligned.h"
#include "slices.h"
#include "speed.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/kernels/dense.h"
#include "tessera/kernels/gemm.h"
#include "tessera/kernels/gemm_a8.h"
#include "tessera/kernels/info.h"
#include "tessera/kernels/int8.h"
#include "tessera/kernels/quantise.h"

namespace tessera::linear {
namespace {

using kernels::Matrix;
using kernels::Real;
using kernels::Rows;

constexpr std::int64_t kFewTokens = 16;  // beyond them arithmetic takes longer than reading
constexpr std::int64_t kCheckedRows = 64, kCheckedTokens = 4;

class Product {
 public:
  Product(const ProductRequest& request, ProductKernel kernel)
      : r_(request),
        kernel_(kernel),
        format_{r_.bitwidth, true, r_.group_size, Real::f16},
        activations_(numbers(r_.tokens * r_.columns, 1)),
        out_(static_cast<std::size_t>(r_.tokens * r_.rows)) {
    bytes_ = kernel == ProductKernel::dense_gemm
                 ? kernels::dense_weights_bytes(r_.rows, r_.columns, r_.dtype)
             : kernel == ProductKernel::int8_gemm
                 ? kernels::int8_weights_bytes(r_.rows, r_.columns)
                 : kernels::packed_weights_bytes(r_.rows, r_.columns, format_);
    if (bytes_ == 0) {
      refuse("bitwidth", "{} bits in groups of {} of {} columns are no form of weights",
             r_.bitwidth, r_.group_size, r_.columns);
    }
    stride_ = (bytes_ + 63) / 64 * 64;
    copies_ = r_.tokens > kFewTokens ? 1 : kColdBytes / stride_ + 1;
    data_ = Aligned(copies_ * stride_);
    pack(weights_of(r_));
    for (std::int64_t i = 1; i < copies_; ++i) {
      std::memcpy(data_.data() + i * stride_, data_.data(), static_cast<std::size_t>(bytes_));
    }
  }

  std::int64_t bytes() const {
    return bytes_ + (kernel_ == ProductKernel::int8_gemm ? r_.rows * std::int64_t{4} : 0);
  }
  std::int64_t token_bytes() const {
    const std::int64_t number = kernel_ == ProductKernel::int8_gemm ? 1 : 4;
    return r_.tokens * (number * r_.columns + 4 * r_.rows);
  }

  bool is_stopped() const { return r_.stop != nullptr && *r_.stop; }

  double time() {
    return time_copies(copies_, r_.stop,
                       [&](std::int64_t i) { apply(data_.data() + i * stride_); });
  }

  /// Of what the last product gave, at a sample of its outputs.
  double nmse() const {
    double error = 0, power = 0;
    std::vector<double> weights, x;
    for (std::int64_t i = 0; i < std::min(kCheckedRows, r_.rows); ++i) {
      const std::int64_t row = i * r_.rows / std::min(kCheckedRows, r_.rows);
      weights = multiplied_weights(row);
      for (std::int64_t k = 0; k < std::min(kCheckedTokens, r_.tokens); ++k) {
        const std::int64_t token = k * r_.tokens / std::min(kCheckedTokens, r_.tokens);
        x = multiplied_activations(token);
        const double right = std::inner_product(x.begin(), x.end(), weights.begin(), 0.0);
        const double found = out_[static_cast<std::size_t>(token * r_.rows + row)];
        error += (found - right) * (found - right);
        power += right * right;
      }
    }
    return power > 0 ? error / power : error;
  }

 private:
  /// In steps of 1/128, which f16 and bf16 hold exactly: so it is known what is multiplied.
  static std::vector<float> weights_of(const ProductRequest& r) {
    std::vector<float> values = numbers(r.rows * r.columns, 1u << 20);
    for (float& value : values) value = std::floor(value * 128) / 128;
    return values;
  }

  void pack(const std::vector<float>& values) {
    const Matrix weights{values.data(), Real::f32, r_.rows, r_.columns, r_.columns};
    switch (kernel_) {
      case ProductKernel::dense_gemm:
        return for_rows(threads(), r_.rows, [&](std::int64_t first, std::int64_t last) {
          expect_ok(kernels::pack_dense_weights(weights, r_.dtype, {first, last}, data_.data()),
                    "packing weights");
        });
      case ProductKernel::int8_gemm:
        return pack_int8(weights);
      default:
        return pack_codes(weights);
    }
  }

  void pack_codes(const Matrix& weights) {
    const auto groups = r_.rows * kernels::num_groups(r_.columns, r_.group_size);
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(r_.rows * r_.columns));
    std::vector<std::uint8_t> zeros(static_cast<std::size_t>(groups));
    std::vector<float> scales(zeros.size());
    const Rows all{0, r_.rows};
    expect_ok(kernels::choose_scales(weights, all, format_, scales.data(), zeros.data()), "scales");
    expect_ok(kernels::quantise(weights, all, format_, scales.data(), nullptr,
                                kernels::Rounding::nearest, 0, codes.data()),
              "quantising");
    for_rows(threads(), r_.rows, [&](std::int64_t first, std::int64_t last) {
      expect_ok(kernels::pack_weights(codes.data(), r_.rows, r_.columns, format_, scales.data(),
                                      nullptr, {first, last}, data_.data()),
                "packing codes");
    });
  }

  void pack_int8(const Matrix& weights) {
    if (r_.columns > kernels::kMaxInt8Columns) {
      refuse(ErrorCode::out_of_range, "columns", "int8_gemm sums at most {} exactly, not {}",
             kernels::kMaxInt8Columns, r_.columns);
    }
    const auto quantised = [](const Matrix& matrix, std::vector<std::int8_t>& codes,
                              std::vector<float>& scales) {
      codes.resize(static_cast<std::size_t>(matrix.rows * matrix.columns));
      scales.resize(static_cast<std::size_t>(matrix.rows));
      expect_ok(
          kernels::quantise_rows(matrix, {0, matrix.rows}, nullptr, codes.data(), scales.data()),
          "rounding to 8 bits");
    };
    quantised(weights, weight_codes_, weight_scales_);
    quantised({activations_.data(), Real::f32, r_.tokens, r_.columns, r_.columns}, codes_, scales_);
    expect_ok(kernels::pack_int8_weights(weight_codes_.data(), r_.rows, r_.columns, {0, r_.rows},
                                         reinterpret_cast<std::int8_t*>(data_.data())),
              "packing codes");
  }

  void apply(const std::byte* data) {
    const Matrix x{activations_.data(), Real::f32, r_.tokens, r_.columns, r_.columns};
    const kernels::PackedWeights packed{r_.rows, r_.columns, format_, data};
    multiply(threads(), r_.rows, [&](Rows rows) {
      switch (kernel_) {
        case ProductKernel::dense_gemm:
          return kernels::dense_gemm(x, {r_.rows, r_.columns, r_.dtype, data}, rows, out_.data(),
                                     r_.rows);
        case ProductKernel::int8_gemm:
          return kernels::int8_gemm(
              codes_.data(), scales_.data(), r_.tokens,
              {r_.rows, r_.columns, reinterpret_cast<const std::int8_t*>(data),
               weight_scales_.data()},
              rows, out_.data(), r_.rows);
        case ProductKernel::dequant_gemm_a8:
          return kernels::dequant_gemm_a8(x, packed, rows, out_.data(), r_.rows);
        default:
          return kernels::dequant_gemm(x, packed, rows, out_.data(), r_.rows);
      }
    });
  }

  std::vector<double> multiplied_weights(std::int64_t row) const {
    const auto first = static_cast<std::size_t>(row * r_.columns);
    std::vector<double> values(static_cast<std::size_t>(r_.columns));
    if (kernel_ == ProductKernel::int8_gemm) {
      const double scale = weight_scales_[static_cast<std::size_t>(row)];
      for (std::size_t k = 0; k < values.size(); ++k) values[k] = scale * weight_codes_[first + k];
      return values;
    }
    if (kernel_ == ProductKernel::dense_gemm) {
      for (std::size_t k = 0; k < values.size(); ++k)
        values[k] = std::floor(number((1u << 20) + first + k) * 128) / 128;
      return values;
    }
    std::vector<float> unpacked(values.size());
    expect_ok(kernels::unpack_weights({r_.rows, r_.columns, format_, data_.data()}, {row, row + 1},
                                      unpacked.data()),
              "unpacking codes");
    return {unpacked.begin(), unpacked.end()};
  }

  std::vector<double> multiplied_activations(std::int64_t token) const {
    const auto first = static_cast<std::size_t>(token * r_.columns);
    std::vector<double> values(
        activations_.begin() + static_cast<std::ptrdiff_t>(first),
        activations_.begin() + static_cast<std::ptrdiff_t>(first) + r_.columns);
    if (kernel_ == ProductKernel::int8_gemm) {
      const double scale = scales_[static_cast<std::size_t>(token)];
      for (std::size_t k = 0; k < values.size(); ++k) values[k] = scale * codes_[first + k];
    } else if (kernel_ == ProductKernel::dequant_gemm_a8) {
      round_blocks(values);
    }
    return values;
  }

  /// As gemm_a8.h has it: a scale for every kActivationBlock columns of a group.
  void round_blocks(std::vector<double>& values) const {
    const auto all = static_cast<std::int64_t>(values.size());
    const std::int64_t group = r_.group_size > 0 ? r_.group_size : all;
    for (std::int64_t begin = 0; begin < all;) {
      const std::int64_t group_end = std::min(all, (begin / group + 1) * group);
      const std::int64_t end = std::min(group_end, begin + kernels::kActivationBlock);
      const std::span block(values.data() + begin, static_cast<std::size_t>(end - begin));
      float most = 0;
      for (const double x : block) most = std::max(most, static_cast<float>(std::abs(x)));
      const float scale = most > 0 ? most / 127 : 1;
      for (double& x : block) x = double{scale} * std::nearbyint(static_cast<float>(x) / scale);
      begin = end;
    }
  }

  int threads() const { return static_cast<int>(r_.threads); }

  const ProductRequest& r_;
  ProductKernel kernel_;
  kernels::QuantFormat format_;
  std::vector<float> activations_, out_;
  std::vector<std::int8_t> codes_, weight_codes_;  ///< of int8_gemm
  std::vector<float> scales_, weight_scales_;
  std::int64_t bytes_ = 0, copies_ = 1, stride_ = 0;
  Aligned data_;
};

/// The kernel that is asked for, or that models have at these bitwidths.
ProductKernel kernel_of(const ProductRequest& r) {
  if (r.kernel) return *r.kernel;
  if (r.bitwidth == 16) return ProductKernel::dense_gemm;
  return r.activation_bitwidth == 8 ? ProductKernel::dequant_gemm_a8 : ProductKernel::dequant_gemm;
}

void check(const ProductRequest& r) {
  if (r.rows > kMostWeights / r.columns) {
    refuse(ErrorCode::out_of_range, "rows", "{} x {} are more than {} weights", r.rows, r.columns,
           kMostWeights);
  }
  if (r.bitwidth != 3 && r.bitwidth != 4 && r.bitwidth != 8 && r.bitwidth != 16) {
    refuse("bitwidth", "{} is none of 3, 4, 8, 16", r.bitwidth);
  }
  if (r.activation_bitwidth != 8 && r.activation_bitwidth != 16) {
    refuse("activation_bitwidth", "{} is neither 8 nor 16", r.activation_bitwidth);
  }
  if (r.activation_bitwidth == 8 && r.bitwidth == 16) {
    refuse("activation_bitwidth", "weights of 16 bits multiply f32; leave it away");
  }
  const ProductKernel kernel = kernel_of(r);
  const bool is_dense = kernel == ProductKernel::dense_gemm;
  const bool fits =
      kernel == ProductKernel::int8_gemm ? r.bitwidth == 8 : is_dense == (r.bitwidth == 16);
  if (!fits) {
    refuse("bitwidth", "{} multiplies weights of {} bits, not {}", name_of(kernel),
           is_dense                             ? "16"
           : kernel == ProductKernel::int8_gemm ? "8"
                                                : "3, 4 or 8",
           r.bitwidth);
  }
}

}  // namespace

ProductSpeed measure_product(const ProductRequest& request) {
  check(request);
  const WithIsa isa(request.isa);
  ProductSpeed speed;
  speed.kernel = kernel_of(request);
  speed.isa = chosen_isa(name_of(speed.kernel));
  Product product(request, speed.kernel);
  speed.weight_bytes = product.bytes();
  speed.token_bytes = product.token_bytes();
  product.time();
  speed.nmse = product.is_stopped() ? 0 : product.nmse();
  if (!(speed.nmse <= kMostNmse)) {
    refuse(ErrorCode::internal, "kernel",
           "{} ({}) gave a wrong product of {} tokens, {} outputs and {} inputs at {} bits: {:.2g} "
           "of its power is off, at most {:.0e} rounds away; TESSERA_KERNELS_ISA=scalar keeps to "
           "the reference",
           name_of(speed.kernel), speed.isa, request.tokens, request.rows, request.columns,
           request.bitwidth, speed.nmse, kMostNmse);
  }
  while (std::ssize(speed.product_s) < request.repeats && !product.is_stopped()) {
    speed.product_s.push_back(product.time());
  }
  return speed;
}

}  // namespace tessera::linear
