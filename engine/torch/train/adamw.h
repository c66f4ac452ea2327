#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "tessera/lm/train.h"

namespace tessera::lm::train {

/// Linear warm-up, the peak, and half a cosine at the end.
/// @param step in [0, num_steps)
double learning_rate(const TrainRequest& request, std::int64_t step);

/// AdamW with decoupled decay (Loshchilov and Hutter, 2019, Algorithm 2) and clipping by the norm
/// of the whole gradient, over one block of parameters.
class AdamW {
 public:
  /// @param values [n] f32, changed in place
  /// @param decays [n]: 1 where weight decay applies
  AdamW(const TrainRequest& request, at::Tensor values, at::Tensor decays);

  /// Returns the norm of the gradient before clipping.
  double step(const at::Tensor& gradient, double rate);

 private:
  double weight_decay_, max_norm_;
  std::int64_t num_steps_ = 0;
  at::Tensor values_, decays_, mean_, square_;
};

}  // namespace tessera::lm::train
