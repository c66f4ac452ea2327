#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "layer_operators.h"
#include "tessera/cost/latency.h"
#include "tessera/cost/profile.h"
#include "work.h"

/// What a profile is asked of a layer.
namespace tessera::cost {

/// Borrows the shape for as long as it lives.
inline OpQuery layer_query(const LayerShape& shape, std::int32_t bitwidth, const LayerWork& work) {
  OpQuery query;
  query.op = Op::layer;
  query.phase = work.phase;
  query.bitwidth = bitwidth;
  query.batch_size = work.batch_size;
  query.tokens = work.tokens;
  query.context_tokens = work.context_tokens;
  query.layer = std::shared_ptr<const LayerShape>(std::shared_ptr<void>(), &shape);
  return query;
}

/// @param dtype of products in 16 bits; empty: there are none, and attention is in BF16
inline OpQuery attention_query(const LayerShape& shape, const LayerWork& work,
                               const std::string& dtype) {
  OpQuery query;
  query.op = Op::attention;
  query.phase = work.phase;
  query.dtype = dtype.empty() ? "bfloat16" : dtype;
  query.batch_size = work.batch_size;
  query.tokens = work.tokens;
  query.context_tokens = work.context_tokens;
  const AttentionShape attention = attention_shape(shape);
  query.num_heads = attention.num_heads;
  query.num_kv_heads = attention.num_kv_heads;
  query.head_dim = attention.head_dim;
  query.window = attention.window;
  return query;
}

/// Whether a part of tuned kernels has those for these experts on a device.
inline bool lists(const ProfilePart& part, const Device& device, const OpQuery& query) {
  return std::any_of(part.tuned.begin(), part.tuned.end(), [&](const TunedExperts& tuned) {
    return tuned.num_experts == query.num_experts / query.num_devices &&
           tuned.device == device.name &&
           std::find(tuned.inner_sizes.begin(), tuned.inner_sizes.end(), query.inner_size) !=
               tuned.inner_sizes.end();
  });
}

}  // namespace tessera::cost
