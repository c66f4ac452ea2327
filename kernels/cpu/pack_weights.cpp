#include "check.h"
#include "packer.h"
#include "tessera/kernels/gemm.h"
#include "tessera/kernels/gemm_a8.h"
#include "versions.h"

namespace tessera::kernels {

std::int64_t packed_weights_bytes(std::int64_t rows, std::int64_t columns, QuantFormat format) {
  if (!cpu::valid_shape(rows, columns) || !cpu::valid(format)) return 0;
  return cpu::layout_of(rows, columns, cpu::code_format(format)).bytes();
}

Status pack_weights(const std::uint8_t* codes, std::int64_t num_rows, std::int64_t columns,
                    QuantFormat format, const float* scale, const std::uint8_t* zero_point,
                    Rows rows, void* data) {
  if (codes == nullptr || !cpu::valid_shape(num_rows, columns) || !cpu::valid(format) ||
      scale == nullptr || (zero_point == nullptr && !format.symmetric) ||
      !cpu::valid_blocks(rows, num_rows, kRowsPerBlock) || !cpu::aligned(data)) {
    return Status::invalid_argument;
  }
  cpu::Packer packer(num_rows, columns, cpu::code_format(format), data);
  const cpu::PackedLayout& l = packer.layout;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    if (row % kRowsPerBlock == 0) packer.clear(row / kRowsPerBlock);
    for (std::int64_t group = 0; group < l.groups; ++group) {
      const std::int64_t at = row * l.groups + group;
      const std::uint8_t zero = format.symmetric ? std::uint8_t{0} : zero_point[at];
      packer.put(row, group,
                 {codes + row * columns + group * l.group_size, l.columns_of(group, columns),
                  scale[at], 0, zero});
    }
  }
  return Status::ok;
}

namespace {

bool valid_weights(const PackedWeights& w) {
  return cpu::valid_shape(w.rows, w.columns) && cpu::valid(w.format) && cpu::aligned(w.data);
}

}  // namespace

Status dequant_gemm(Matrix activations, PackedWeights weights, Rows outputs, float* out,
                    std::int64_t out_stride) {
  if (!valid_weights(weights) ||
      !cpu::valid_product(activations, weights.rows, weights.columns, outputs, out, out_stride)) {
    return Status::invalid_argument;
  }
  cpu::chosen().dequant_gemm(activations, cpu::coded(weights), outputs, out, out_stride);
  return Status::ok;
}

Status dequant_gemm_a8(Matrix activations, PackedWeights weights, Rows outputs, float* out,
                       std::int64_t out_stride) {
  if (!valid_weights(weights) ||
      !cpu::valid_product(activations, weights.rows, weights.columns, outputs, out, out_stride)) {
    return Status::invalid_argument;
  }
  cpu::chosen().dequant_gemm_a8(activations, cpu::coded(weights), outputs, out, out_stride);
  return Status::ok;
}

}  // namespace tessera::kernels
