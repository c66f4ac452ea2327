#pragma once

#include "tessera/kernels/types.h"

namespace tessera::kernels::cuda {

/// A cudaStream_t; null is the default stream. Kernels only enqueue: their outputs are there once
/// the stream has come so far, and `ok` means that the launch was accepted.
using Stream = void*;

/// What choosing a kernel depends on.
struct Device {
  int compute_capability;  ///< 80 for sm_80
  int num_multiprocessors;
};

/// The current CUDA device. The capability is the lower one of the device's and of the code in this
/// library, which may have been compiled for an older architecture. Status::unsupported: no driver,
/// no device, or no code for it.
Status current_device(Device* out);

}  // namespace tessera::kernels::cuda
