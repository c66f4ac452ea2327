#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/model_shape.h"
#include "tessera/cost/kernel_set.h"
#include "tessera/cost/op.h"

namespace tessera::cost {

/// A layer's matrices as runtimes multiply them: queries, keys and values in one product, or what
/// makes their latents, and gate and up too.
std::vector<LinearShape> fused(const LayerShape& layer);

/// Bytes that the kernels between the products move, in FP16: two norms (read, write), two residual
/// additions (two reads, one write), the activation (a write, and a read per input), and the rotary
/// embedding of queries and keys.
double elementwise_bytes(const LayerShape& layer, double rows);

/// Also where one device holds a single one of those that are spread.
inline bool is_expert(const LinearShape& linear) {
  return linear.num_copies > 1 || linear.num_holders > 1;
}
bool has_experts(const LayerShape& layer);
inline constexpr const char* kExpertsDown = "experts.down_proj";  ///< back to the hidden features
/// The next multiple.
inline double padded_to(double size, double multiple) {
  return std::ceil(size / multiple) * multiple;
}

/// Whether a matrix belongs to what keeps a state.
bool is_of_state(const LinearShape& linear);

/// Whether it attends to keys and values of its own and mixes tokens by nothing else, as layers
/// that are measured whole.
bool is_plain(const LayerShape& layer);
/// Whether it attends to some tokens alone: of a window, or those that an indexer chooses.
bool sees_some(const LayerShape& layer);

/// Halves of a layer, each of which ends in a sum over the devices of a group: what mixes tokens,
/// and a feed-forward network.
std::int64_t num_halves(const LayerShape& layer);
/// Whether other devices hold experts of it too.
bool is_spread(const LayerShape& layer);
LayerShape without_experts(LayerShape layer);
LayerShape experts_alone(LayerShape layer);
/// Gate, up and down of all experts of a layer as one operation, where it has just these. Rows pick
/// for themselves. Beside a shared expert all others are picked alike: the routers of such models
/// (DeepSeek-V3's and GLM's, by a bias for each expert) are balanced while they are trained.
std::optional<OpQuery> experts_query(const LayerShape& layer, double rows,
                                     const std::string& dtype);
/// What the rows pick experts by: a matrix, in 16 bits and whole on each device; none: no experts.
std::optional<LinearShape> router_of(const LayerShape& layer);

/// Experts of an MXFP4 checkpoint as wide as the rule's kernel has them.
void pad(OpQuery& experts, const KernelRule& rule);

/// Multi-head latent attention as the kernels have it, from a query for its heads: prompts with
/// keys and values of every head, decoding with one head as wide as a latent and its rotary key,
/// which are cached once for keys and values alike.
OpQuery latent_query(OpQuery of_heads, const LayerShape& layer);

}  // namespace tessera::cost
