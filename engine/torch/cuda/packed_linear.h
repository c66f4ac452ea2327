#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tessera/kernels/cuda/device.h"
#include "tessera/linear/linear.h"
#include "tessera/lm/backend.h"
#include "tessera/torch/torch_backend.h"

// Products with quantised matrices and attention by the kernels of kernels/cuda. Free of LibTorch
// and of the CUDA runtime, so that tests run it on the CPU that plays a GPU.
namespace tessera::lm {

using linear::Linear;
using linear::LinearCodes;

/// Memory of a GPU, and the stream that kernels are launched on.
class KernelDevice {
 public:
  virtual ~KernelDevice() = default;

  virtual kernels::cuda::Device properties() const = 0;
  /// Aligned to 256 bytes. May be let go as soon as the kernels that use it are launched: what is
  /// allocated after that comes later in the stream.
  virtual Memory allocate(std::int64_t bytes) const = 0;
  virtual void upload(const void* host, std::int64_t bytes, void* device) const = 0;
  virtual void download(const void* device, std::int64_t bytes, void* host) const = 0;

  using Launch = std::function<kernels::Status(kernels::cuda::Stream)>;
  /// Calls `launch` with the current stream, this device being the current one.
  virtual kernels::Status run(const Launch& launch) const = 0;
};

/// The same codes in the memory of a device, multiplied there: 3, 4 and 8 bits with activations
/// rounded to `activations` (f32: as they are), or W8A8 with activations in 8 bits and outliers in
/// f32, token by token. apply() takes device memory, and enqueues. A product's bits depend on how
/// many tokens are in it, which choose the kernel; the same call has the same bits.
///
/// Null where the kernels do not take the matrix: `why_not` says why, or is empty for one that is
/// not in codes.
/// @throws Error{internal} where a launch fails
std::unique_ptr<Linear> make_packed_linear(const Linear& values, kernels::Real activations,
                                           std::shared_ptr<const KernelDevice> device,
                                           std::string& why_not);

/// Attention by the kernel, enqueued. @throws Error{internal} where the launch fails
Attend make_attention(std::shared_ptr<const KernelDevice> device);

}  // namespace tessera::lm
