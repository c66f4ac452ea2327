#include "target.h"
#include "tessera/torch/cuda_kernels.h"

namespace tessera::lm {

std::shared_ptr<const Backend> backend_on(const kernels::cuda::Device&, kernels::Real activations) {
  DeviceKernels ours = cuda_kernels("cuda");
  ours.pack = [pack = ours.pack, activations](const Linear& values, kernels::Real,
                                              std::string& why_not) {
    return pack(values, activations, why_not);
  };
  return make_torch_backend("cuda", 1, std::move(ours));
}

}  // namespace tessera::lm
