#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "tessera/lm/train.h"

namespace tessera::lm::train {

struct Norm {
  at::Tensor gain, bias;  ///< [hidden_size]
};
struct Linear {
  at::Tensor weight, bias;  ///< [out][in], [out]
};
struct Layer {
  Norm attention_norm, ffn_norm;
  Linear qkv;  ///< q, k and v above one another: one product is faster than three
  Linear out, fc1, fc2;
};

/// All parameters of the decoder as views of one block of memory: a step of the optimiser is one
/// pass over it.
struct Parameters {
  at::Tensor tokens;     ///< [vocab_size][hidden_size]
  at::Tensor positions;  ///< [max_context_tokens][hidden_size]
  std::vector<Layer> layers;
  Norm final_norm;
};

std::int64_t num_parameters(const TrainRequest& request);

/// Views of `values` ([num_parameters] f32). Where `gradients` is defined, of the same size, the
/// tensors are leaves of autograd that add their gradients up there.
Parameters view_of(const TrainRequest& request, const at::Tensor& values,
                   const at::Tensor& gradients = {});

/// [num_parameters]: gains 1, biases 0, the rest normal by request.seed; what writes to the
/// residual stream is smaller by the root of the number of its writers (Radford et al. 2019).
at::Tensor initial_values(const TrainRequest& request);

/// [num_parameters]: 1 where weight decay applies, the matrices, else 0.
at::Tensor decay_mask(const TrainRequest& request);

}  // namespace tessera::lm::train
