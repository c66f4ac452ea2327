#pragma once

#include <cstdint>
#include <string>

#include "tessera/core/model_shape.h"
#include "tessera/lm/language_model.h"

namespace tessera::lm {

/// What a tensor-parallel rank has of things that the ranks share evenly, in their order.
struct Share {
  std::int64_t rank = 0, ranks = 1;

  std::int64_t of(std::int64_t count) const { return count / ranks; }
  std::int64_t first(std::int64_t count) const { return rank * of(count); }
};

inline Share share_of(const LoadRequest& request) { return {request.rank, request.ranks}; }

/// A layer's KV heads that the request leaves to others, and those that it keeps.
inline std::int64_t heads_elsewhere(const LoadRequest& request, const LayerShape& layer) {
  return kv_heads_elsewhere(layer, request.attention_elsewhere);
}
inline std::int64_t own_kv_heads(const LoadRequest& request, const LayerShape& layer) {
  return share_of(request).of(layer.num_kv_heads) - heads_elsewhere(request, layer);
}

/// @throws Error{out_of_range} naming the layer and the numbers that the ranks do not divide, or a
/// rank that is none; Error{invalid_argument} for the reducer of another rank
void check_share(const LoadRequest& request, const ModelShape& shape);

}  // namespace tessera::lm
