// Packed weights back to numbers, on the CPU: for who looks at them, not for products.
#include "packed_parts.h"
#include "tessera/kernels/cuda/gemm.h"

namespace tessera::kernels::cuda {
namespace {

int code_at(const PackedWeights& w, std::int64_t row, std::int64_t column) {
  const int bitwidth = w.format.bitwidth;
  const std::int64_t tile =
      row / kTileRows * num_tiles(w.columns, kTileColumns) + column / kTileColumns;
  const auto* words = static_cast<const std::uint32_t*>(w.data) + tile * tile_words(bitwidth);
  const Slot slot =
      slot_of(static_cast<int>(row % kTileRows), static_cast<int>(column % kTileColumns));
  int code = 0;
  for (int i = 0; i < bitwidth; ++i) {
    const BitPlace place = bit_place(bitwidth, slot, i);
    const std::uint32_t word = words[word_in_tile(bitwidth, slot.lane, place.word)];
    code |= static_cast<int>(word >> place.bit & 1u) << i;
  }
  return code;
}

float scale_at(const void* scales, Real type, std::int64_t at) {
  if (type == Real::f32) return static_cast<const float*>(scales)[at];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(scales)[at];
  return type == Real::f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

}  // namespace

Status unpack_host_weights(PackedWeights w, Rows rows, float* out) {
  if (packed_weights_bytes(w.rows, w.columns, w.format) == 0 || w.data == nullptr ||
      rows.first < 0 || rows.first >= rows.last || rows.last > w.rows || out == nullptr)
    return Status::invalid_argument;
  const PackedParts parts = packed_parts(w.rows, w.columns, w.format);
  const auto* bytes = static_cast<const std::uint8_t*>(w.data);
  const std::int64_t groups = num_groups(w.columns, w.format.group_size);
  const std::int64_t group_size = w.format.group_size == 0 ? w.columns : w.format.group_size;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    for (std::int64_t column = 0; column < w.columns; ++column) {
      const std::int64_t at = scale_index(row, column / group_size, groups);
      const int zero = w.format.symmetric ? symmetric_zero_point(w.format.bitwidth)
                                          : bytes[parts.zero_points + at];
      *out++ = scale_at(bytes + parts.scales, w.format.scale_type, at) *
               static_cast<float>(code_at(w, row, column) - zero);
    }
  }
  return Status::ok;
}

}  // namespace tessera::kernels::cuda
