#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rope.h"
#include "tessera/core/model_shape.h"
#include "tessera/kernels/activation.h"
#include "tessera/kernels/attention.h"
#include "tessera/weights/weights.h"

namespace tessera::lm {

enum class NormKind { rms, layer };
enum class Positions {
  none,
  learned,  ///< a row of a table is added to the embedding
  rope,
  alibi
};
enum class Order {
  sequential,  ///< attention, then the feed-forward network on what it gave
  parallel,    ///< both on the same input, added together (GPT-J, Falcon)
  post_norm    ///< sequential, and norms after the sums (OPT-350m)
};

/// What a decoder does beside multiplying by the matrices that its ModelShape lists: one
/// description instead of a class per family.
struct Description {
  ModelShape shape;
  std::string path;  ///< of config.json or the GGUF file, for messages

  NormKind norm = NormKind::rms;
  float norm_epsilon = 1e-6f;
  float norm_offset = 0;  ///< added to the weights of norms (Gemma keeps them less 1)
  bool qk_norm = false;   ///< RMS norm of every query and key head
  Order order = Order::sequential;
  bool shared_norm = false;  ///< parallel: the network reads what the attention reads
  bool post_norms = false;   ///< outputs are normed before they are added (Gemma 2, 3)

  Positions positions = Positions::rope;
  std::int64_t position_offset = 0;  ///< rows of the table before position 0 (OPT: 2)
  std::vector<Rope> ropes;
  std::vector<std::int32_t> rope_of_layer;  ///< [num_layers] index into ropes
  bool interleaved = false;                 ///< pairs (2i, 2i + 1); else halves
  std::vector<float> alibi_slopes;          ///< [num_heads]

  float attention_scale = 1;    ///< of query times key
  bool scale_by_layer = false;  ///< and divided by the layer's number, from 1
  float attention_softcap = 0;  ///< 0: none
  float logit_softcap = 0;
  float embedding_scale = 1;
  kernels::Activation activation = kernels::Activation::silu;

  bool normalise_experts = true;  ///< weights of the chosen experts sum to 1
};

/// Attention of some of a layer's heads. @param alibi_slopes of the first of these, on the device
kernels::AttentionForm attention_form(const Description& description, std::int64_t layer_index,
                                      std::int64_t num_heads, const float* alibi_slopes);

/// @throws Error{unsupported} naming the key and value that is not understood
Description describe(const weights::Weights& weights, const ModelShape& shape);

}  // namespace tessera::lm
