#pragma once

#include <memory>

#include "../device_memory.h"
#include "packed_linear.h"
#include "tessera/kernels/types.h"
#include "tessera/lm/backend.h"

// Where the engine's packed products run in these tests: the emulator's CPU, or a GPU.
namespace tessera::lm {

/// Memory of the device that is here, our kernels on its default stream. Counts launches.
class TestDevice final : public KernelDevice {
 public:
  explicit TestDevice(const kernels::cuda::Device& properties) : properties_(properties) {
    kernels::test::use_device(properties);
  }
  kernels::cuda::Device properties() const override { return properties_; }
  Memory allocate(std::int64_t bytes) const override {
    return Memory(kernels::test::device_allocate(bytes), kernels::test::device_free);
  }
  void upload(const void* host, std::int64_t bytes, void* device) const override {
    kernels::test::copy_to_device(device, host, bytes);
  }
  void download(const void* device, std::int64_t bytes, void* host) const override {
    kernels::test::copy_from_device(host, device, bytes);
  }
  kernels::Status run(const Launch& launch) const override {
    ++launches;
    return launch(nullptr);
  }

  mutable int launches = 0;

 private:
  kernels::cuda::Device properties_;
};

/// LibTorch's operators where our kernels are; quantised matrices are multiplied by these, with
/// activations rounded to `activations` whatever the dtype of the rest. In emulated_target.cpp and
/// cuda_target.cpp.
std::shared_ptr<const Backend> backend_on(const kernels::cuda::Device& device,
                                          kernels::Real activations);

}  // namespace tessera::lm
