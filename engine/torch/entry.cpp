// What the module with LibTorch exports.
#include "tessera/lm/module.h"
#include "tessera/torch/torch_backend.h"

extern "C" std::shared_ptr<const tessera::lm::Backend> tessera_torch_backend(
    const std::string& device, int num_threads) {
  return tessera::lm::make_torch_backend(device, num_threads);
}
