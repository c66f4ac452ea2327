#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "tessera/core/rng.h"
#include "tessera/lm/train.h"

namespace tessera::lm::train {

/// Hands out the windows of a text in random order: each once, then all again, shifted.
class Windows {
 public:
  explicit Windows(const TrainRequest& request);

  /// [request.batch_size][max_context_tokens + 1] int64
  at::Tensor next_batch();

 private:
  void shuffle();

  const TrainRequest& request_;
  Rng rng_;
  std::vector<std::int64_t> starts_;
  std::size_t used_ = 0;
};

/// Windows that share nothing, in order; what is left at the end is dropped. Same shape, with as
/// many rows as there are.
at::Tensor all_windows(const std::vector<std::int32_t>& tokens, std::int64_t length);

}  // namespace tessera::lm::train
