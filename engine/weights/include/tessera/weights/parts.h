#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/model_shape.h"
#include "tessera/weights/linears.h"
#include "tessera/weights/weights.h"

namespace tessera::weights {

/// What a decoder holds beside the matrices of its layers.
enum class Part {
  token_embedding,
  position_embedding,
  embedding_norm,  ///< BLOOM
  project_in,      ///< OPT-350m: from the embedding's width to the hidden size
  project_out,
  final_norm,
  lm_head,
  layer_embedding,  ///< Gemma 4: of what each layer gets by token
  layer_projection,
  layer_projection_norm,
  stream_projection,  ///< Gemma 3n: the hidden states of a token but the first, of the first
  stream_return,      ///< and what makes them alike again
  rope_factors,       ///< GGUF: what the frequencies of rotary embeddings are divided by
  // of a layer
  attention_norm,
  ffn_norm,
  attention_post_norm,  ///< Gemma 2 and 3: of the output, before it is added
  ffn_post_norm,
  q_norm,  ///< of every head, or of all
  k_norm,
  sinks,  ///< scores that no token has
  query_latent_norm,
  latent_norm,
  layer_input_norm,  ///< Gemma 4
  bypass_norm,       ///< Gemma 3n: of a way beside the mixer
  stream_prediction,
  stream_correction,
  stream_router,
  stream_router_norm,
  stream_scale,
  layer_scale,
  network_post_norm,  ///< of a network that experts stand beside
  experts_norm,
  experts_post_norm,
  router_scale,
  expert_scale,
  router,
  router_correction,  ///< a number per expert, added for the choice alone
  shared_expert_gate,
  state_convolution,      ///< of a layer that mixes tokens by a state
  state_key_convolution,  ///< Kimi Linear: the others', where the first is that of queries
  state_value_convolution,
  state_decay,
  state_step_bias,
  state_skip,
  state_norm,
  state_step_norm,  ///< Jamba: of what Mamba makes of its inputs
  state_b_norm,
  state_c_norm
};

/// A weight and, where the file has one, the bias beside it.
struct PartTensors {
  const TensorInfo* weight = nullptr;
  const TensorInfo* bias = nullptr;
};

/// Where it is stored; empty where the file has none. `layer_index` counts for parts of a layer,
/// `head` for those that have a tensor each.
std::optional<PartTensors> find_part(const Weights& weights, const ModelShape& model, Part part,
                                     std::int64_t layer_index = 0, std::int64_t head = 0);

/// The names looked for, for messages.
std::vector<std::string> names_of_part(const Weights& weights, const ModelShape& model, Part part,
                                       std::int64_t layer_index = 0, std::int64_t head = 0);

/// The bias of a matrix: entry `linear.stored_row(r)` belongs to its row r. nullptr without one.
const TensorInfo* bias_of(const Weights& weights, const LinearWeight& linear);

/// config.json in Hugging Face's words: of a GGUF file as translated from its metadata, of a
/// Gemma 3 with a nested decoder that decoder's. @throws Error{not_found, invalid_argument}
Json hf_config_of(const Weights& weights);

}  // namespace tessera::weights
