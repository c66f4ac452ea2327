#include "tessera/lm/module.h"
#include "tessera/lm/train.h"

namespace tessera::lm {

TrainSummary train_by_module(const TrainRequest& request) {
  static auto* const train = reinterpret_cast<TrainEntry*>(module_entry(kTorchModule, kTrainEntry));
  return train(request);
}

}  // namespace tessera::lm
