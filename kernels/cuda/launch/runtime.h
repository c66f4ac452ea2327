#pragma once

// What the launchers need of the CUDA runtime. The emulator of tests/gpu has the same functions.

#ifndef __CUDACC__
#include <cuda_emulator.h>
#else

#include <cuda_runtime_api.h>

#include "tessera/kernels/cuda/device.h"

namespace tessera::kernels::cuda {

template <class... Parameters>
Status launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
              Stream stream, Parameters... parameters) {
  kernel<<<grid, block, shared_bytes, static_cast<cudaStream_t>(stream)>>>(parameters...);
  return cudaGetLastError() == cudaSuccess ? Status::ok : Status::device_error;
}

/// More than 48 KiB of shared memory must be asked for.
template <class Kernel>
Status allow_shared_bytes(Kernel* kernel, int num_bytes) {
  if (num_bytes <= 48 * 1024) return Status::ok;
  const auto answer = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                           cudaFuncAttributeMaxDynamicSharedMemorySize, num_bytes);
  return answer == cudaSuccess ? Status::ok : Status::device_error;
}

}  // namespace tessera::kernels::cuda
#endif
