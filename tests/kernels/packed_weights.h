#pragma once

#include <initializer_list>

#include "support.h"
#include "tessera/kernels/gemm.h"

namespace tessera::kernels::test {

/// Random codes, scales and zero points, packed.
struct PackedRandomWeights {
  PackedRandomWeights(std::int64_t num_rows, std::int64_t num_columns, QuantFormat quant_format,
                      std::uint64_t stream)
      : rows(num_rows),
        columns(num_columns),
        format(quant_format),
        groups(num_groups(columns, format.group_size)),
        codes(static_cast<std::size_t>(rows * columns)),
        scale(static_cast<std::size_t>(rows * groups)),
        zero_point(scale.size()),
        data(packed_weights_bytes(rows, columns, format)) {
    std::mt19937_64 random(seed() + stream);
    const auto span = static_cast<unsigned>(highest_code(format) - lowest_code(format) + 1);
    for (auto& code : codes) {
      code =
          static_cast<std::uint8_t>(random() % span + static_cast<unsigned>(lowest_code(format)));
    }
    for (float& s : scale) {
      s = 0.01f * static_cast<float>(random() % 100 + 1);
      if (format.scale_type == Real::f16) s = f16_to_f32(f32_to_f16(s));
      if (format.scale_type == Real::bf16) s = bf16_to_f32(f32_to_bf16(s));
    }
    for (auto& z : zero_point) {
      z = static_cast<std::uint8_t>(format.symmetric ? symmetric_zero_point(format.bitwidth)
                                                     : random() % (span + 0u));
    }
    const std::int64_t half = rows / 2 / kRowsPerBlock * kRowsPerBlock;
    for (const Rows slice : {Rows{0, half}, Rows{half, rows}}) {
      if (slice.first == slice.last) continue;
      EXPECT_EQ(pack_weights(codes.data(), rows, columns, format, scale.data(), zero_point.data(),
                             slice, data.data()),
                Status::ok);
    }
    EXPECT_EQ(data.num_touched(), 0);
  }
  double weight(std::int64_t row, std::int64_t column) const {
    const std::int64_t size = format.group_size == 0 ? columns : format.group_size;
    const auto group = static_cast<std::size_t>(row * groups + column / size);
    const int code = codes[static_cast<std::size_t>(row * columns + column)];
    return double{scale[group]} * (code - zero_point[group]);
  }
  /// scale * zero point, which a product may add and take off again.
  double largest_term(std::int64_t row, std::int64_t column) const {
    const std::int64_t size = format.group_size == 0 ? columns : format.group_size;
    const auto group = static_cast<std::size_t>(row * groups + column / size);
    return double{scale[group]} * zero_point[group];
  }
  PackedWeights packed() { return {rows, columns, format, data.data()}; }

  std::int64_t rows, columns;
  QuantFormat format;
  std::int64_t groups;
  std::vector<std::uint8_t> codes;
  std::vector<float> scale;
  std::vector<std::uint8_t> zero_point;
  Guarded<unsigned char> data;
};

using Sizes = std::initializer_list<std::int64_t>;

/// check(weights, type of the activations, tokens, gap, misalign) in every format, on every
/// instruction set.
template <class Check>
void for_every_format(Sizes groups, Sizes tokens, const Check& check) {
  for_each_isa([&](const std::string&) {
    for (const int bitwidth : {3, 4, 8}) {
      for (const bool symmetric : {true, false}) {
        for (const std::int64_t group : groups) {
          for (const Real scales : {Real::f32, Real::f16, Real::bf16}) {
            PackedRandomWeights w(48, 256, {bitwidth, symmetric, group, scales}, 1);
            for (const Real type : {Real::f32, Real::f16, Real::bf16}) {
              for (const std::int64_t count : tokens) check(w, type, count, 0, 0);
            }
            if (::testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  });
}

/// The same at rows that leave a block incomplete, and columns that leave a unit, a tile and a
/// group incomplete.
template <class Check>
void for_odd_sizes(Sizes groups, Sizes tokens, const Check& check) {
  for_each_isa([&](const std::string&) {
    for (const int bitwidth : {3, 4, 8}) {
      for (const std::int64_t rows : {1, 15, 16, 17, 33, 50}) {
        for (const std::int64_t columns : {1, 3, 31, 33, 100, 517}) {
          for (const std::int64_t group : groups) {
            PackedRandomWeights w(rows, columns, {bitwidth, columns % 2 == 0, group, Real::f16}, 2);
            for (const std::int64_t count : tokens) {
              check(w, Real::f32, count, 3, 4);
              if (::testing::Test::HasFatalFailure()) return;
            }
          }
        }
      }
    }
  });
}

/// What a product of packed weights refuses, one wrong argument at a time.
template <class Gemm>
void expect_refusals(PackedRandomWeights& w, const Gemm& gemm) {
  constexpr Status kBad = Status::invalid_argument;
  ASSERT_EQ(w.rows, 32);
  ASSERT_EQ(w.columns, 64);
  const std::vector<float> x(64 * 2);
  std::vector<float> out(64);
  const Matrix m{x.data(), Real::f32, 2, 64, 64};
  const Rows all{0, 32};
  EXPECT_EQ(gemm(m, w.packed(), all, out.data(), 32), Status::ok);
  EXPECT_EQ(gemm({nullptr, Real::f32, 2, 64, 64}, w.packed(), all, out.data(), 32), kBad);
  EXPECT_EQ(gemm({x.data(), Real::f32, 2, 63, 64}, w.packed(), all, out.data(), 32), kBad);
  EXPECT_EQ(gemm({x.data(), Real::f32, 0, 64, 64}, w.packed(), all, out.data(), 32), kBad);
  EXPECT_EQ(gemm(m, {32, 64, w.format, nullptr}, all, out.data(), 32), kBad);
  EXPECT_EQ(gemm(m, {32, 64, w.format, w.data.data() + 4}, all, out.data(), 32), kBad);
  EXPECT_EQ(gemm(m, {-32, 64, w.format, w.data.data()}, all, out.data(), 32), kBad);
  const QuantFormat six_bits{6, true, 0, Real::f32};
  EXPECT_EQ(gemm(m, {32, 64, six_bits, w.data.data()}, all, out.data(), 32), kBad);
  for (const Rows rows : {Rows{0, 33}, Rows{8, 32}, Rows{0, 8}, Rows{16, 16}}) {
    EXPECT_EQ(gemm(m, w.packed(), rows, out.data(), 32), kBad);
  }
  EXPECT_EQ(gemm(m, w.packed(), all, nullptr, 32), kBad);
  EXPECT_EQ(gemm(m, w.packed(), all, out.data(), 31), kBad);
}

}  // namespace tessera::kernels::test
