// Our CUDA kernels in LibTorch's memory and on its current stream.
#include "tessera/torch/cuda_kernels.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "packed_linear.h"

namespace tessera::lm {
namespace {

at::Tensor bytes_at(const void* data, std::int64_t bytes, const at::Device& device) {
  return at::from_blob(const_cast<void*>(data), {bytes},
                       at::TensorOptions(device).dtype(at::kByte));
}

class TorchKernelDevice final : public KernelDevice {
 public:
  TorchKernelDevice(const at::Device& device, const kernels::cuda::Device& properties)
      : device_(device), properties_(properties) {}

  kernels::cuda::Device properties() const override { return properties_; }

  // LibTorch keeps what is freed for the stream that had it, and aligns to 512 bytes.
  Memory allocate(std::int64_t bytes) const override {
    const at::Tensor memory =
        at::empty({std::max<std::int64_t>(bytes, 1)}, at::TensorOptions(device_).dtype(at::kByte));
    return Memory(memory.data_ptr(), [memory](void*) {});
  }
  void upload(const void* host, std::int64_t bytes, void* device) const override {
    if (bytes > 0) bytes_at(device, bytes, device_).copy_(bytes_at(host, bytes, at::kCPU));
  }
  void download(const void* device, std::int64_t bytes, void* host) const override {
    if (bytes > 0) bytes_at(host, bytes, at::kCPU).copy_(bytes_at(device, bytes, device_));
  }
  kernels::Status run(const Launch& launch) const override {
    const c10::cuda::CUDAGuard guard(device_);
    return launch(c10::cuda::getCurrentCUDAStream(device_.index()).stream());
  }

 private:
  at::Device device_;
  kernels::cuda::Device properties_;
};

}  // namespace

DeviceKernels cuda_kernels(const std::string& name) {
  check_torch_device(name);
  const at::Device device(name);
  const c10::cuda::CUDAGuard guard(device);
  kernels::cuda::Device properties{};
  if (kernels::cuda::current_device(&properties) != kernels::Status::ok) {
    return {[](const Linear&, kernels::Real, std::string& why_not) -> std::unique_ptr<Linear> {
              why_not = "this build has no kernels for the GPU";
              return nullptr;
            },
            {}};
  }
  const auto here = std::make_shared<TorchKernelDevice>(device, properties);
  return {[here](const Linear& values, kernels::Real activations, std::string& why_not) {
            return make_packed_linear(values, activations, here, why_not);
          },
          make_attention(here)};
}

}  // namespace tessera::lm
