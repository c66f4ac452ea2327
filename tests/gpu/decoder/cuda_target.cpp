#include "target.h"
#include "tessera/torch/cuda_kernels.h"

namespace tessera::lm {

std::shared_ptr<const Backend> backend_on(const kernels::cuda::Device&, kernels::Real activations) {
  return make_torch_backend("cuda", 1,
                            [pack = cuda_kernels("cuda"), activations](
                                const Linear& values, kernels::Real, std::string& why_not) {
                              return pack(values, activations, why_not);
                            });
}

}  // namespace tessera::lm
