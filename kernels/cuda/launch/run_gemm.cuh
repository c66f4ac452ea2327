#pragma once

#include "../device/decode_gemm.cuh"
#include "../device/tile_gemm.cuh"
#include "../device/wmma_gemm.cuh"
#include "gemm.h"
#include "segments.h"

namespace tessera::kernels::cuda {

template <class Operand, int Bitwidth, int Tokens>
Status run_tiles(const GemmPlan& plan, const GemmArguments& p, Stream stream) {
  using Shape = TileShape<Bitwidth, Tokens>;
  const auto kernel = tile_gemm_kernel<Operand, Bitwidth, Tokens>;
  if (const Status status = allow_shared_bytes(kernel, Shape::kSharedBytes); status != Status::ok)
    return status;
  const dim3 grid{blocks_of(p.row_tiles, Shape::kRowTiles), blocks_of(p.tokens, Tokens),
                  static_cast<unsigned>(plan.splits)};
  return launch(kernel, grid, dim3{Shape::kThreads, 1, 1}, Shape::kSharedBytes, stream, p);
}

template <class Operand, int Bitwidth, int Size>
Status run_decode(const GemmArguments& p, Stream stream) {
  const auto kernel = p.span == 4   ? decode_gemm_kernel<Operand, Bitwidth, Size, 4>
                      : p.span == 2 ? decode_gemm_kernel<Operand, Bitwidth, Size, 2>
                                    : decode_gemm_kernel<Operand, Bitwidth, Size, 1>;
  return launch(kernel, dim3{blocks_of(p.row_tiles, Size), 1, 1}, dim3{32 * kDecodeWarps, 1, 1}, 0,
                stream, p);
}

template <class Operand, int Bitwidth>
Status run_tensor(const GemmPlan& plan, const GemmArguments& p, Stream stream) {
  switch (plan.kernel) {
    case GemmKernel::decode:
      return run_decode<Operand, Bitwidth, 1>(p, stream);
    case GemmKernel::decode_16:
      return run_decode<Operand, Bitwidth, 2>(p, stream);
    case GemmKernel::tile_32:
      return run_tiles<Operand, Bitwidth, 32>(plan, p, stream);
    case GemmKernel::tile_64:
      return run_tiles<Operand, Bitwidth, 64>(plan, p, stream);
    case GemmKernel::tile_128:
      return run_tiles<Operand, Bitwidth, 128>(plan, p, stream);
    default:
      return Status::invalid_argument;
  }
}

template <Real Type, int Bitwidth>
Status run_fma(const GemmPlan& plan, const GemmArguments& p, Stream stream) {
  if (plan.kernel == GemmKernel::fma_decode) {
    return launch(fma_decode_kernel<Type, Bitwidth>, dim3{static_cast<unsigned>(p.row_tiles), 1, 1},
                  dim3{32 * kFmaDecodeWarps, 1, 1}, 0, stream, p);
  }
  const dim3 grid{blocks_of(p.rows, kFmaRows), blocks_of(p.tokens, kFmaTokens), 1};
  return launch(fma_gemm_kernel<Type, Bitwidth>, grid, dim3{kFmaThreads, 1, 1}, 0, stream, p);
}

/// The body of run_gemm<Bitwidth>.
template <int Bitwidth>
Status run_gemm_of(const GemmPlan& plan, Real type, const GemmArguments& p, Stream stream) {
  switch (plan.kernel) {
    case GemmKernel::wmma: {
      const dim3 grid{blocks_of(p.rows, kWmmaRows), blocks_of(p.tokens, kWmmaTokens), 1};
      return launch(wmma_gemm_kernel<Bitwidth>, grid, dim3{kWmmaThreads, 1, 1}, 0, stream, p);
    }
    case GemmKernel::fma_decode:
    case GemmKernel::fma:
      return type == Real::f32 ? run_fma<Real::f32, Bitwidth>(plan, p, stream)
                               : run_fma<Real::f16, Bitwidth>(plan, p, stream);
    default:
      return type == Real::f16 ? run_tensor<F16, Bitwidth>(plan, p, stream)
                               : run_tensor<Bf16, Bitwidth>(plan, p, stream);
  }
}

}  // namespace tessera::kernels::cuda
