#pragma once

#include "tessera/lm/train.h"

namespace tessera::lm::train {

/// @throws Error{invalid_argument, out_of_range} naming the field
void check(const TrainRequest& request);

}  // namespace tessera::lm::train
