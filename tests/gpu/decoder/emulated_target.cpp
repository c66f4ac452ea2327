#include "target.h"
#include "tessera/torch/torch_backend.h"

namespace tessera::lm {

std::shared_ptr<const Backend> backend_on(const kernels::cuda::Device& properties,
                                          kernels::Real activations) {
  const auto device = std::make_shared<TestDevice>(properties);
  return make_torch_backend(
      "cpu", 1,
      {[device, activations](const Linear& values, kernels::Real, std::string& why_not) {
         return make_packed_linear(values, activations, device, why_not);
       },
       make_attention(device)});
}

}  // namespace tessera::lm
