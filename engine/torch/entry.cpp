// What the module with LibTorch exports.
#include "tessera/lm/module.h"
#include "tessera/lm/train.h"
#include "tessera/torch/torch_backend.h"

extern "C" std::shared_ptr<const tessera::lm::Backend> tessera_torch_backend(
    const std::string& device, int num_threads) {
  return tessera::lm::make_torch_backend(device, num_threads);
}

extern "C" tessera::lm::TrainSummary tessera_train_decoder(
    const tessera::lm::TrainRequest& request) {
  return tessera::lm::train_decoder(request);
}
