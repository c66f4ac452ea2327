#pragma once

#include "tessera/kernels/cuda/device.h"
#include "tessera/kernels/quantise.h"

// As tessera/kernels/quantise.h and pack.h, bit for bit, over whole matrices in device memory.
namespace tessera::kernels::cuda {

Status choose_scales(Matrix matrix, QuantFormat format, float* scale, std::uint8_t* zero_point,
                     Stream stream);

Status quantise(Matrix matrix, QuantFormat format, const float* scale,
                const std::uint8_t* zero_point, Rounding rounding, std::uint64_t seed,
                std::uint8_t* codes, Stream stream);

Status dequantise(const std::uint8_t* codes, std::int64_t rows, std::int64_t columns,
                  QuantFormat format, const float* scale, const std::uint8_t* zero_point,
                  float* out, Stream stream);

/// [rows][columns] codes to [rows][packed_row_bytes], and back.
Status pack(const std::uint8_t* codes, std::int64_t rows, std::int64_t columns, int bitwidth,
            std::uint8_t* packed, Stream stream);
Status unpack(const std::uint8_t* packed, std::int64_t rows, std::int64_t columns, int bitwidth,
              std::uint8_t* codes, Stream stream);

/// f32 activations [tokens, columns] divided by `divisor` [columns] (null: as they are) and rounded
/// to `type`, to nearest, into `out` [tokens][columns]. What f16 does not hold (65520 and more)
/// becomes infinite.
Status round_activations(Matrix activations, const float* divisor, Real type, void* out,
                         Stream stream);

}  // namespace tessera::kernels::cuda
