#pragma once

#include <cstdint>

#include "tessera/kernels/cuda/device.h"
#include "tessera/kernels/quantise.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels::cuda {

/// Quantised weights in the order in which the matrix kernels read them
/// (kernels/cuda/device/layout.h); three parts in one piece of device memory. Made by pack_weights.
struct PackedWeights {
  std::int64_t rows, columns;  ///< out_features, in_features
  QuantFormat format;
  const void* data;  ///< packed_weights_bytes() bytes of device memory, aligned to 256
};

/// Bytes that pack_weights() fills; 0 where the format or the shape is not valid: groups must be
/// whole rows or a multiple of 32 columns, a side at most 2^21.
std::int64_t packed_weights_bytes(std::int64_t rows, std::int64_t columns, QuantFormat format);

/// Codes [rows][columns], scales and zero points [rows][num_groups] (null: symmetric), all in
/// device memory, into `data`.
Status pack_weights(const std::uint8_t* codes, std::int64_t rows, std::int64_t columns,
                    QuantFormat format, const float* scale, const std::uint8_t* zero_point,
                    void* data, Stream stream);

enum class GemmKernel {
  decode,     ///< tensor cores straight from memory, at most 8 tokens, 16-bit scales
  decode_16,  ///< the same, at most 16 tokens
  tile_32,    ///< tensor cores over shared memory, blocks of 32 tokens
  tile_64,
  tile_128,
  wmma,        ///< the first tensor cores (sm_70), f16
  fma_decode,  ///< no tensor cores, at most 4 tokens
  fma          ///< no tensor cores: f32 activations, or an older GPU
};

/// Which kernel runs a product and what it needs. Asked once per shape; costs nothing.
struct GemmPlan {
  Status status;       ///< not ok: `reason` says why, and the rest means nothing
  const char* reason;  ///< a sentence, static; null where status is ok
  GemmKernel kernel;
  int splits;  ///< of k across blocks; more than one needs the workspace
  std::int64_t workspace_bytes;
};

GemmPlan plan_dequant_gemm(Device device, Real activation_type, std::int64_t tokens,
                           std::int64_t rows, std::int64_t columns, QuantFormat format);

/// The numbers that a product multiplies: `rows` as f32 [rows of the slice][columns]. On the CPU:
/// `weights.data` is a copy of packed weights in host memory.
Status unpack_host_weights(PackedWeights weights, Rows rows, float* out);

/// out[token][row] = sum over k of activations[token][k] * weights[row][k]; activations [tokens,
/// columns] and `out` [tokens][out_stride] in device memory. Sums in f32, and the same sums in the
/// same order at every call. `workspace`: plan.workspace_bytes of device memory aligned to 16, of
/// this call alone while it runs.
Status dequant_gemm(const GemmPlan& plan, Matrix activations, PackedWeights weights, float* out,
                    std::int64_t out_stride, void* workspace, Stream stream);

}  // namespace tessera::kernels::cuda
