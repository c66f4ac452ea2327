#include "../../cpu/check.h"
#include "../device/activations.cuh"
#include "../device/quantise.cuh"
#include "runtime.h"
#include "segments.h"
#include "tessera/kernels/cuda/quantise.h"
#include "tessera/kernels/pack.h"

namespace tessera::kernels::cuda {
namespace {

template <class... Parameters, class... Arguments>
Status launch_elements(void (*kernel)(Parameters...), std::int64_t count, Stream stream,
                       Arguments... arguments) {
  return launch(kernel, dim3{blocks_of(count, kElementThreads), 1, 1}, dim3{kElementThreads, 1, 1},
                0, stream, static_cast<Parameters>(arguments)...);
}

/// What packing and unpacking ask of their arguments.
Status check_packed(const void* from, std::int64_t rows, std::int64_t columns, int bitwidth,
                    const void* to) {
  if (from == nullptr || to == nullptr || !cpu::valid_bitwidth(bitwidth) ||
      !cpu::valid_shape(rows, columns))
    return Status::invalid_argument;
  return rows * columns > kMaxElements ? Status::unsupported : Status::ok;
}

}  // namespace

Status quantise(Matrix matrix, QuantFormat format, const float* scale,
                const std::uint8_t* zero_point, Rounding rounding, std::uint64_t seed,
                std::uint8_t* codes, Stream stream) {
  if (!cpu::valid(matrix) || !cpu::valid(format) || scale == nullptr ||
      (zero_point == nullptr && !format.symmetric) || codes == nullptr ||
      (rounding != Rounding::nearest && rounding != Rounding::stochastic))
    return Status::invalid_argument;
  const std::int64_t count = matrix.rows * matrix.columns;
  if (count > kMaxElements) return Status::unsupported;
  return launch_elements(quantise_kernel, (count + 3) / 4, stream,
                         segments_of(matrix, format.group_size), format, scale, zero_point,
                         rounding, seed, codes);
}

Status dequantise(const std::uint8_t* codes, std::int64_t rows, std::int64_t columns,
                  QuantFormat format, const float* scale, const std::uint8_t* zero_point,
                  float* out, Stream stream) {
  if (codes == nullptr || !cpu::valid(format) || !cpu::valid_shape(rows, columns) ||
      scale == nullptr || (zero_point == nullptr && !format.symmetric) || out == nullptr)
    return Status::invalid_argument;
  if (rows * columns > kMaxElements) return Status::unsupported;
  const Segments groups = segments_of({out, Real::f32, rows, columns, columns}, format.group_size);
  return launch_elements(dequantise_kernel, rows * columns, stream, codes, groups, format.bitwidth,
                         scale, zero_point, out);
}

Status pack(const std::uint8_t* codes, std::int64_t rows, std::int64_t columns, int bitwidth,
            std::uint8_t* packed, Stream stream) {
  if (const Status status = check_packed(codes, rows, columns, bitwidth, packed);
      status != Status::ok)
    return status;
  const std::int64_t row_words = packed_row_bytes(columns, bitwidth) / 4;
  return launch_elements(pack_kernel, rows * row_words, stream, codes, rows, columns, bitwidth,
                         row_words, packed);
}

Status unpack(const std::uint8_t* packed, std::int64_t rows, std::int64_t columns, int bitwidth,
              std::uint8_t* codes, Stream stream) {
  if (const Status status = check_packed(packed, rows, columns, bitwidth, codes);
      status != Status::ok)
    return status;
  const std::int64_t row_words = packed_row_bytes(columns, bitwidth) / 4;
  return launch_elements(unpack_kernel, rows * columns, stream, packed, rows, columns, bitwidth,
                         row_words, codes);
}

Status round_activations(Matrix x, const float* divisor, Real type, void* out, Stream stream) {
  if (!cpu::valid(x) || x.type != Real::f32 || !cpu::valid(type) || out == nullptr)
    return Status::invalid_argument;
  const std::int64_t count = x.rows * x.columns;
  if (count > kMaxElements) return Status::unsupported;
  return launch(round_activations_kernel, dim3{blocks_of(count, kActivationThreads), 1, 1},
                dim3{kActivationThreads, 1, 1}, 0, stream, static_cast<const float*>(x.data),
                x.rows, x.columns, x.stride, divisor, type, out);
}

}  // namespace tessera::kernels::cuda
