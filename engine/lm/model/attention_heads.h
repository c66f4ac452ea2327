#pragma once

#include <memory>

#include "tessera/lm/backend.h"
#include "tessera/lm/heads_elsewhere.h"
#include "tessera/lm/language_model.h"

namespace tessera::lm {

/// The heads that a request leaves to others, on a device.
/// @throws Error{out_of_range} where it leaves none, and as Decoder::load
std::unique_ptr<AttentionHeads> make_attention_heads(const LoadRequest& request,
                                                     std::int64_t num_blocks,
                                                     std::int64_t block_size,
                                                     std::shared_ptr<const Backend> backend);

}  // namespace tessera::lm
