#pragma once

#include <ATen/ATen.h>

#include "tessera/lm/train.h"

namespace tessera::lm::train {

/// The parameters as they go to disk: with outliers, rounded to f16; f32, in the order of the
/// block.
at::Tensor written_values(const TrainRequest& request, const at::Tensor& values);

/// The parameters of request.initial, in the order of the block.
/// @throws as weights::Weights::open; Error{invalid_argument} for tensors of other shapes
at::Tensor read_values(const TrainRequest& request);

/// The folder of request.out, from written_values. @throws Error{io}
void write_checkpoint(const TrainRequest& request, const at::Tensor& written);

}  // namespace tessera::lm::train
