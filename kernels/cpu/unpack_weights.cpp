#include "check.h"
#include "ggml_blocks.h"
#include "packed.h"
#include "tessera/kernels/gemm.h"
#include "tessera/kernels/ggml_weights.h"
#include "versions.h"

namespace tessera::kernels {
namespace {

using cpu::CodedWeights;
using cpu::Offset;

void unpack_row(const CodedWeights& w, std::int64_t row, float* out) {
  const cpu::PackedLayout& l = w.layout;
  const std::int64_t block = row / kRowsPerBlock, lane = row % kRowsPerBlock;
  const Real type = w.format.scale_type;
  for (std::int64_t g = 0; g < l.groups; ++g) {
    const std::int64_t at = (block * l.groups + g) * kRowsPerBlock + lane;
    const float scale = cpu::load(w.scales, type, at);
    const float minimum = w.format.offset == Offset::minima ? cpu::load(w.offsets, type, at) : 0;
    int zero = 0;
    if (w.format.offset == Offset::zero) zero = w.format.zero;
    if (w.format.offset == Offset::zero_points) zero = static_cast<std::uint8_t>(w.offsets[at]);
    const std::uint32_t* words = w.words + l.word(block, g, 0) + lane;
    const std::int64_t count = l.columns_of(g, w.columns),
                       unit_words = l.unit_words * kRowsPerBlock;
    for (std::int64_t c = 0; c < count; ++c) {
      const std::uint32_t code =
          cpu::unit_code(words + c / l.unit_columns * unit_words, kRowsPerBlock, c % l.unit_columns,
                         w.format.bitwidth);
      const float value = scale * static_cast<float>(static_cast<int>(code) - zero);
      *out++ = w.format.offset == Offset::minima ? value + minimum : value;
    }
  }
}

void unpack_row_codes(const CodedWeights& w, std::int64_t row, std::uint8_t* codes, float* scale,
                      std::uint8_t* zero_point) {
  const cpu::PackedLayout& l = w.layout;
  const std::int64_t block = row / kRowsPerBlock, lane = row % kRowsPerBlock;
  for (std::int64_t g = 0; g < l.groups; ++g) {
    const std::int64_t at = (block * l.groups + g) * kRowsPerBlock + lane;
    scale[g] = cpu::load(w.scales, w.format.scale_type, at);
    zero_point[g] = static_cast<std::uint8_t>(
        w.format.offset == Offset::zero_points ? w.offsets[at] : w.format.zero);
    const std::uint32_t* words = w.words + l.word(block, g, 0) + lane;
    for (std::int64_t c = 0; c < l.columns_of(g, w.columns); ++c) {
      *codes++ = static_cast<std::uint8_t>(
          cpu::unit_code(words + c / l.unit_columns * l.unit_words * kRowsPerBlock, kRowsPerBlock,
                         c % l.unit_columns, w.format.bitwidth));
    }
  }
}

Status unpack_coded(const CodedWeights& w, Rows rows, std::uint8_t* codes, float* scale,
                    std::uint8_t* zero_point) {
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    unpack_row_codes(w, row, codes, scale, zero_point);
    codes += w.columns;
    scale += w.layout.groups;
    zero_point += w.layout.groups;
  }
  return Status::ok;
}

Status unpack(const CodedWeights& w, Rows rows, float* out) {
  for (std::int64_t row = rows.first; row < rows.last; ++row, out += w.columns)
    unpack_row(w, row, out);
  return Status::ok;
}

bool valid(std::int64_t num_rows, std::int64_t columns, const void* data, Rows rows,
           const float* out) {
  return cpu::valid_shape(num_rows, columns) && cpu::aligned(data) && cpu::valid(rows, num_rows) &&
         out != nullptr;
}

}  // namespace

Status unpack_weights(PackedWeights w, Rows rows, float* out) {
  if (!valid(w.rows, w.columns, w.data, rows, out) || !cpu::valid(w.format))
    return Status::invalid_argument;
  return unpack(cpu::coded(w), rows, out);
}

Status unpack_codes(PackedWeights w, Rows rows, std::uint8_t* codes, float* scale,
                    std::uint8_t* zero_point) {
  if (!valid(w.rows, w.columns, w.data, rows, scale) || !cpu::valid(w.format) || codes == nullptr ||
      zero_point == nullptr)
    return Status::invalid_argument;
  return unpack_coded(cpu::coded(w), rows, codes, scale, zero_point);
}

bool ggml_code_format(GgmlType type, QuantFormat* out) {
  const cpu::GgmlFormat* format = cpu::ggml_format(type);
  if (format == nullptr || out == nullptr || format->codes.offset != Offset::zero) return false;
  const cpu::CodeFormat& codes = format->codes;
  *out = {codes.bitwidth, codes.zero == symmetric_zero_point(codes.bitwidth), codes.group_size,
          codes.scale_type};
  return true;
}

Status unpack_ggml_codes(GgmlWeights w, Rows rows, std::uint8_t* codes, float* scale,
                         std::uint8_t* zero_point) {
  const cpu::GgmlFormat* format = cpu::ggml_format(w.type);
  if (!valid(w.rows, w.columns, w.data, rows, scale) || format == nullptr ||
      w.columns % format->block_columns != 0 || codes == nullptr || zero_point == nullptr)
    return Status::invalid_argument;
  if (format->codes.offset != Offset::zero) return Status::unsupported;
  return unpack_coded(cpu::coded(w.rows, w.columns, format->codes, w.data), rows, codes, scale,
                      zero_point);
}

Status unpack_ggml_weights(GgmlWeights w, Rows rows, float* out) {
  const cpu::GgmlFormat* format = cpu::ggml_format(w.type);
  if (!valid(w.rows, w.columns, w.data, rows, out) || format == nullptr ||
      w.columns % format->block_columns != 0) {
    return Status::invalid_argument;
  }
  return unpack(cpu::coded(w.rows, w.columns, format->codes, w.data), rows, out);
}

}  // namespace tessera::kernels
