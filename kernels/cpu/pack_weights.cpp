#include <cstring>

#include "check.h"
#include "packed.h"
#include "tessera/kernels/gemm.h"
#include "tessera/kernels/gemm_a8.h"
#include "versions.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t kBlock = kRowsPerBlock;

/// Sets the bits of `code` in the words of one row (kBlock words apart).
void put_code(std::uint32_t* words, std::int64_t column, int bitwidth, std::uint32_t code) {
  if (bitwidth != 3) {
    words[0] |= code << (column * bitwidth);
  } else if (column < 30) {
    words[column / 10 * kBlock] |= code << (column % 10 * 3);
  } else {
    for (int bit = 0; bit < 3; ++bit) words[bit * kBlock] |= (code >> bit & 1u) << column;
  }
}

void put_scale(void* scales, Real type, std::int64_t i, float scale) {
  char* to = static_cast<char*>(scales) + i * size_of(type);
  if (type == Real::f32) {
    std::memcpy(to, &scale, 4);
  } else {
    const std::uint16_t bits = type == Real::f16 ? f32_to_f16(scale) : f32_to_bf16(scale);
    std::memcpy(to, &bits, 2);
  }
}

struct Source {
  const std::uint8_t* codes;
  std::int64_t num_rows, columns;
  QuantFormat format;
  const float* scale;
  const std::uint8_t* zero_point;
};

void pack_block(const Source& from, const cpu::PackedLayout& l, std::int64_t block, char* data) {
  auto* words = reinterpret_cast<std::uint32_t*>(data);
  char* scales = data + l.words_bytes;
  auto* zero_points = reinterpret_cast<std::uint8_t*>(scales + l.scales_bytes);
  const std::uint32_t mask = (1u << from.format.bitwidth) - 1;
  std::memset(words + l.word(block, 0, 0), 0,
              static_cast<std::size_t>(l.word(1, 0, 0)) * sizeof(std::uint32_t));
  for (std::int64_t lane = 0; lane < kBlock; ++lane) {
    const std::int64_t row = block * kBlock + lane;
    const bool there = row < from.num_rows;
    for (std::int64_t g = 0; g < l.groups; ++g) {
      const std::int64_t at = (block * l.groups + g) * kBlock + lane;
      put_scale(scales, from.format.scale_type, at, there ? from.scale[row * l.groups + g] : 0);
      if (!from.format.symmetric) {
        zero_points[at] = there ? from.zero_point[row * l.groups + g] : std::uint8_t{0};
      }
      if (!there) continue;
      const std::uint8_t* codes = from.codes + row * from.columns + g * l.group_size;
      const std::int64_t count = l.columns_of(g, from.columns);
      for (std::int64_t c = 0; c < count; ++c) {
        put_code(words + l.word(block, g, c / l.unit_columns) + lane, c % l.unit_columns,
                 from.format.bitwidth, codes[c] & mask);
      }
    }
  }
}

}  // namespace

std::int64_t packed_weights_bytes(std::int64_t rows, std::int64_t columns, QuantFormat format) {
  if (!cpu::valid_shape(rows, columns) || !cpu::valid(format)) return 0;
  return cpu::layout_of(rows, columns, format).bytes();
}

Status pack_weights(const std::uint8_t* codes, std::int64_t num_rows, std::int64_t columns,
                    QuantFormat format, const float* scale, const std::uint8_t* zero_point,
                    Rows rows, void* data) {
  if (codes == nullptr || !cpu::valid_shape(num_rows, columns) || !cpu::valid(format) ||
      scale == nullptr || (zero_point == nullptr && !format.symmetric) ||
      !cpu::valid_blocks(rows, num_rows, kBlock) || !cpu::aligned(data)) {
    return Status::invalid_argument;
  }
  const cpu::PackedLayout l = cpu::layout_of(num_rows, columns, format);
  const Source source{codes, num_rows, columns, format, scale, zero_point};
  for (std::int64_t block = rows.first / kBlock; block * kBlock < rows.last; ++block) {
    pack_block(source, l, block, static_cast<char*>(data));
  }
  return Status::ok;
}

namespace {

bool valid_product(Matrix activations, const PackedWeights& weights, Rows outputs, const float* out,
                   std::int64_t out_stride) {
  return cpu::valid(activations) && cpu::valid_shape(weights.rows, weights.columns) &&
         activations.columns == weights.columns && cpu::valid(weights.format) &&
         cpu::aligned(weights.data) && cpu::valid_blocks(outputs, weights.rows, kBlock) &&
         out != nullptr && out_stride >= weights.rows;
}

}  // namespace

Status dequant_gemm(Matrix activations, PackedWeights weights, Rows outputs, float* out,
                    std::int64_t out_stride) {
  if (!valid_product(activations, weights, outputs, out, out_stride)) {
    return Status::invalid_argument;
  }
  cpu::chosen().dequant_gemm(activations, weights, outputs, out, out_stride);
  return Status::ok;
}

Status dequant_gemm_a8(Matrix activations, PackedWeights weights, Rows outputs, float* out,
                       std::int64_t out_stride) {
  if (!valid_product(activations, weights, outputs, out, out_stride)) {
    return Status::invalid_argument;
  }
  cpu::chosen().dequant_gemm_a8(activations, weights, outputs, out, out_stride);
  return Status::ok;
}

}  // namespace tessera::kernels
