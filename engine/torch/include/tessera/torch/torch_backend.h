#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tessera/lm/backend.h"

namespace tessera::lm {

/// A quantised matrix in the device's memory, multiplied there in its codes by activations of a
/// type. Null where that cannot be: `why_not` says why, empty for a matrix that is not in codes.
using PackLinear = std::function<std::unique_ptr<Linear>(
    const Linear& values, kernels::Real activations, std::string& why_not)>;

/// Attention of a ragged batch as Backend::attention has it; false where the kernels do not take
/// the shape, and nothing was done.
using Attend =
    std::function<bool(Rows2d queries, const BatchTables& batch, const kernels::AttentionForm& form,
                       const kernels::KvBlocks& blocks, Rows2d out)>;

/// What kernels of our own do on a device in place of LibTorch's operators; either may be empty.
struct DeviceKernels {
  PackLinear pack;
  Attend attend;
};

/// @throws Error{invalid_argument} for what is neither cpu nor cuda or cuda:N, Error{unsupported}
/// where this LibTorch knows no CUDA or finds no GPU
void check_torch_device(const std::string& device);

/// LibTorch's operators on "cpu", "cuda" or "cuda:N". Matrices in codes are multiplied by what
/// kernels.pack makes of them (cuda_kernels.h), activations being rounded to the form's dtype.
/// Without it, or where it makes nothing, a matrix is multiplied as the numbers that its codes
/// stand for, in dtype; its describe() says so and why.
/// @throws as check_torch_device
std::shared_ptr<const Backend> make_torch_backend(const std::string& device, int num_threads,
                                                  DeviceKernels kernels = {});

}  // namespace tessera::lm
