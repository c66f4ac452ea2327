#pragma once

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

}  // namespace tessera::kernels::test
