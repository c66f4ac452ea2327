#include "tessera/linear/product_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "aligned.h"
#include "slices.h"
#include "tessera/core/error.h"
#include "tessera/kernels/dense.h"
#include "tessera/kernels/gemm.h"
#include "tessera/kernels/gemm_a8.h"
#include "tessera/kernels/quantise.h"

namespace tessera::linear {
namespace {

using kernels::Matrix;
using kernels::Real;
using kernels::Rows;

constexpr std::int64_t kColdBytes = std::int64_t{128} << 20;  // more than a last-level cache
constexpr std::int64_t kFewTokens = 16;  // beyond them arithmetic takes longer than reading

/// A number of [-1, 1) by its index.
float number(std::uint64_t i) {
  auto bits = static_cast<std::uint32_t>(i ^ i >> 32);
  bits = (bits ^ bits >> 15) * 2246822519u;
  bits = (bits ^ bits >> 13) * 3266489917u;
  return static_cast<float>(static_cast<std::int32_t>(bits ^ bits >> 16)) * 0x1p-31f;
}

std::vector<float> numbers(std::int64_t count, std::uint64_t from) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = number(from + i);
  return values;
}

class Product {
 public:
  explicit Product(const ProductRequest& request)
      : r_(request),
        format_{r_.bitwidth, true, r_.group_size, Real::f16},
        activations_(numbers(r_.tokens * r_.columns, 1)),
        out_(static_cast<std::size_t>(r_.tokens * r_.rows)) {
    bytes_ = is_dense() ? kernels::dense_weights_bytes(r_.rows, r_.columns, r_.dtype)
                        : kernels::packed_weights_bytes(r_.rows, r_.columns, format_);
    if (bytes_ == 0) {
      refuse("bitwidth", "{} bits in groups of {} of {} columns are no form of weights",
             r_.bitwidth, r_.group_size, r_.columns);
    }
    stride_ = (bytes_ + 63) / 64 * 64;
    copies_ = r_.tokens > kFewTokens ? 1 : kColdBytes / stride_ + 1;
    data_ = Aligned(copies_ * stride_);
    pack(numbers(r_.rows * r_.columns, 1u << 20));
    for (std::int64_t i = 1; i < copies_; ++i) {
      std::memcpy(data_.data() + i * stride_, data_.data(), static_cast<std::size_t>(bytes_));
    }
  }

  std::int64_t bytes() const { return bytes_; }

  bool is_stopped() const { return r_.stop != nullptr && *r_.stop; }

  /// Seconds of a product, over all copies, or those before it was stopped.
  double time() {
    const auto start = std::chrono::steady_clock::now();
    std::int64_t done = 0;
    while (done < copies_ && !is_stopped()) apply(data_.data() + done++ * stride_);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    return took.count() / static_cast<double>(std::max<std::int64_t>(done, 1));
  }

 private:
  bool is_dense() const { return r_.bitwidth == 16; }

  void pack(const std::vector<float>& values) {
    const Matrix weights{values.data(), Real::f32, r_.rows, r_.columns, r_.columns};
    if (is_dense()) {
      for_rows(threads(), r_.rows, [&](std::int64_t first, std::int64_t last) {
        expect_ok(kernels::pack_dense_weights(weights, r_.dtype, {first, last}, data_.data()),
                  "packing weights");
      });
      return;
    }
    const auto groups = r_.rows * kernels::num_groups(r_.columns, r_.group_size);
    std::vector<std::uint8_t> codes(values.size()), zeros(static_cast<std::size_t>(groups));
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

  void apply(const std::byte* data) {
    const Matrix x{activations_.data(), Real::f32, r_.tokens, r_.columns, r_.columns};
    const kernels::PackedWeights packed{r_.rows, r_.columns, format_, data};
    multiply(threads(), r_.rows, [&](Rows rows) {
      if (is_dense()) {
        return kernels::dense_gemm(x, {r_.rows, r_.columns, r_.dtype, data}, rows, out_.data(),
                                   r_.rows);
      }
      return r_.activation_bitwidth == 8
                 ? kernels::dequant_gemm_a8(x, packed, rows, out_.data(), r_.rows)
                 : kernels::dequant_gemm(x, packed, rows, out_.data(), r_.rows);
    });
  }

  int threads() const { return static_cast<int>(r_.threads); }

  const ProductRequest& r_;
  kernels::QuantFormat format_;
  std::vector<float> activations_, out_;
  std::int64_t bytes_ = 0, copies_ = 1, stride_ = 0;
  Aligned data_;
};

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
}

}  // namespace

ProductSpeed measure_product(const ProductRequest& request) {
  check(request);
  Product product(request);
  ProductSpeed speed;
  speed.weight_bytes = product.bytes();
  product.time();
  while (std::ssize(speed.product_s) < request.repeats && !product.is_stopped()) {
    speed.product_s.push_back(product.time());
  }
  return speed;
}

}  // namespace tessera::linear
