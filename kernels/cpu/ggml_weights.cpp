#include "tessera/kernels/ggml_weights.h"

#include "check.h"
#include "ggml_blocks.h"
#include "packer.h"
#include "versions.h"

namespace tessera::kernels {
namespace {

/// Null where the type or the shape is not valid.
const cpu::GgmlFormat* format_of(std::int64_t rows, std::int64_t columns, GgmlType type) {
  const cpu::GgmlFormat* format = cpu::ggml_format(type);
  if (format == nullptr || !cpu::valid_shape(rows, columns)) return nullptr;
  return columns % format->block_columns == 0 ? format : nullptr;
}

void pack_row(const std::uint8_t* in, std::int64_t row, std::int64_t blocks,
              const cpu::GgmlFormat& format, cpu::Packer* packer) {
  const std::int64_t size = format.codes.group_size, groups = format.block_columns / size;
  for (std::int64_t b = 0; b < blocks; ++b, in += format.block_bytes) {
    cpu::GgmlBlock block{};
    format.decode(in, &block);
    for (std::int64_t g = 0; g < groups; ++g) {
      packer->put(row, b * groups + g,
                  {block.codes + g * size, size, block.scale[g], block.minimum[g], 0});
    }
  }
}

bool valid_weights(const GgmlWeights& w) {
  return format_of(w.rows, w.columns, w.type) != nullptr && cpu::aligned(w.data);
}

cpu::CodedWeights coded(const GgmlWeights& w) {
  return cpu::coded(w.rows, w.columns, cpu::ggml_format(w.type)->codes, w.data);
}

}  // namespace

std::int64_t ggml_block_columns(GgmlType type) {
  const cpu::GgmlFormat* format = cpu::ggml_format(type);
  return format == nullptr ? 0 : format->block_columns;
}

std::int64_t ggml_block_bytes(GgmlType type) {
  const cpu::GgmlFormat* format = cpu::ggml_format(type);
  return format == nullptr ? 0 : format->block_bytes;
}

std::int64_t ggml_group_columns(GgmlType type) {
  const cpu::GgmlFormat* format = cpu::ggml_format(type);
  return format == nullptr ? 0 : format->codes.group_size;
}

bool ggml_has_minima(GgmlType type) {
  const cpu::GgmlFormat* format = cpu::ggml_format(type);
  return format != nullptr && format->codes.offset == cpu::Offset::minima;
}

Status decode_ggml_blocks(GgmlType type, const void* blocks, std::int64_t num_blocks,
                          std::int8_t* codes, float* scale, float* minimum) {
  const cpu::GgmlFormat* format = cpu::ggml_format(type);
  if (format == nullptr || blocks == nullptr || num_blocks < 0 || codes == nullptr ||
      scale == nullptr || minimum == nullptr) {
    return Status::invalid_argument;
  }
  format->decode_blocks(static_cast<const std::uint8_t*>(blocks), num_blocks, format->codes, codes,
                        scale, minimum);
  return Status::ok;
}

std::int64_t ggml_weights_bytes(std::int64_t rows, std::int64_t columns, GgmlType type) {
  const cpu::GgmlFormat* format = format_of(rows, columns, type);
  return format == nullptr ? 0 : cpu::layout_of(rows, columns, format->codes).bytes();
}

Status pack_ggml_weights(const void* const* row_data, std::int64_t num_rows, std::int64_t columns,
                         GgmlType type, Rows rows, void* data) {
  const cpu::GgmlFormat* format = format_of(num_rows, columns, type);
  if (format == nullptr || row_data == nullptr || !cpu::aligned(data) ||
      !cpu::valid_blocks(rows, num_rows, kRowsPerBlock)) {
    return Status::invalid_argument;
  }
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    if (row_data[row] == nullptr) return Status::invalid_argument;
  }
  cpu::Packer packer(num_rows, columns, format->codes, data);
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    if (row % kRowsPerBlock == 0) packer.clear(row / kRowsPerBlock);
    pack_row(static_cast<const std::uint8_t*>(row_data[row]), row, columns / format->block_columns,
             *format, &packer);
  }
  return Status::ok;
}

Status ggml_gemm(Matrix activations, GgmlWeights weights, Rows outputs, float* out,
                 std::int64_t out_stride) {
  if (!valid_weights(weights) ||
      !cpu::valid_product(activations, weights.rows, weights.columns, outputs, out, out_stride)) {
    return Status::invalid_argument;
  }
  cpu::chosen().dequant_gemm(activations, coded(weights), outputs, out, out_stride);
  return Status::ok;
}

Status ggml_gemm_a8(Matrix activations, GgmlWeights weights, Rows outputs, float* out,
                    std::int64_t out_stride) {
  if (!valid_weights(weights) ||
      !cpu::valid_product(activations, weights.rows, weights.columns, outputs, out, out_stride)) {
    return Status::invalid_argument;
  }
  cpu::chosen().dequant_gemm_a8(activations, coded(weights), outputs, out, out_stride);
  return Status::ok;
}

}  // namespace tessera::kernels
