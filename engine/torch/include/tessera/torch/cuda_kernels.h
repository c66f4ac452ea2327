#pragma once

#include <string>

#include "tessera/torch/torch_backend.h"

namespace tessera::lm {

/// Quantised matrices and attention on "cuda" or "cuda:N" by the kernels of kernels/cuda. There
/// where LibTorch and this build both know CUDA (the CMake target tessera::torch_cuda).
/// @throws as check_torch_device
DeviceKernels cuda_kernels(const std::string& device);

}  // namespace tessera::lm
