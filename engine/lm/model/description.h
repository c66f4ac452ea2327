#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rope.h"
#include "state_mixer.h"
#include "tessera/core/arithmetic.h"
#include "tessera/core/model_shape.h"
#include "tessera/kernels/activation.h"
#include "tessera/kernels/attention.h"
#include "tessera/weights/weights.h"

namespace tessera::lm {

/// How experts are chosen: Routing of the family, with what the file says.
struct RoutingRule {
  bool sigmoid = false;
  /// Experts come in groups, of which so many are chosen first, by the sum of so many of their
  /// best.
  std::int64_t num_groups = 1, active_groups = 1, best_of_group = 1;
  bool corrected = false;
  bool normalise = true;
  float scale = 1;
  bool shared_gate = false;
  bool of_inputs = false;  ///< what experts read is multiplied, not what they give
};

/// Queries grow with the tokens before them, by 1 + slope log(1 + floor((position + 1) / tokens)).
struct Temperature {
  double tokens = 0;  ///< 0: they do not
  double slope = 0;
};

/// What a decoder does beside multiplying by the matrices that its ModelShape lists: the Arithmetic
/// of its family, with the numbers of its file.
struct Description {
  ModelShape shape;
  std::string path;  ///< of config.json or the GGUF file, for messages

  Norm norm = Norm::rms;
  float norm_epsilon = 1e-6f;
  float norm_offset = 0;  ///< added to the weights of norms
  bool norm_weight = true, norm_bias = false, embedding_norm = false;
  NormPlaces places = NormPlaces::before;
  bool parallel = false;     ///< attention and network on the same input, added together
  bool shared_norm = false;  ///< parallel: the network reads what the attention reads

  QkNorm qk_norm = QkNorm::none;
  bool qk_norm_turned = false;  ///< after the rotation
  float clip = 0;               ///< of queries, keys and values; 0: none

  Positions positions = Positions::rotary;
  std::int64_t position_offset = 0;  ///< rows of the table before position 0 (OPT: 2)
  std::vector<Rope> ropes;
  std::vector<std::int32_t> rope_of_layer;  ///< [num_layers] index into ropes; -1: turns nothing
  bool interleaved = false;                 ///< pairs (2i, 2i + 1); else halves
  std::vector<float> alibi_slopes;          ///< [num_heads]

  float attention_scale = 1;    ///< of query times key
  bool scale_by_layer = false;  ///< and divided by the layer's number, from 1
  float attention_softcap = 0;  ///< 0: none
  bool chunked = false;         ///< windows are chunks, in which a token sees those before it
  Temperature temperature;      ///< of layers that do not turn
  bool sinks = false;           ///< a score per head that no token has
  float logit_softcap = 0;
  float embedding_scale = 1, residual_scale = 1, logit_scale = 1;
  float attention_in_scale = 1, attention_out_scale = 1, key_scale = 1;
  float state_in_scale = 1, state_out_scale = 1, gate_scale = 1, down_scale = 1;
  std::vector<float> state_part_scales;  ///< gates, inputs, B, C, steps of Mamba 2; or empty

  kernels::Activation activation = kernels::Activation::silu;
  bool squared = false;        ///< what the activation gives is multiplied by its input: relu2
  float activation_limit = 0;  ///< gpt-oss's clamped SwiGLU instead; 0: not
  RoutingRule routing;

  bool value_norm = false;              ///< of each head's values, without weights
  bool experts_beside_network = false;  ///< each behind norms of its own
  std::int64_t num_streams = 1;         ///< hidden states of a token
  /// Of each layer: a network's gates open above their mean and so many deviations; or empty.
  std::vector<std::optional<float>> gate_spread;
  bool layer_scale = false;  ///< what leaves a layer is multiplied by its own number
  bool output_gate = false;  ///< a gate beside each query, for what its head gives
  float latent_epsilon = 0;  ///< of the norms of latents
  /// Of the layers that have one, in place of attention or beside it.
  std::optional<StateForm> state = {};
};

/// ALiBi (Press et al., arXiv:2108.12409, section 3): a geometric row, and for numbers of heads
/// between powers of two every other one of the next row.
std::vector<float> alibi_slopes(std::int64_t num_heads);

/// The names of StateMatrices of a layer; none where it keeps no state.
struct StateLinears {
  std::vector<std::string> in, inner;
  std::string out;
};
StateLinears state_linears(const LayerShape& layer);
bool has_linear(const LayerShape& layer, std::string_view name);
/// Of a layer whose gates are of low rank.
KimiDelta kimi_delta(const LayerShape& layer);
/// It has a network, or experts.
bool feeds_forward(const LayerShape& layer);
/// Of what a layer gets by token beside the hidden state; 0: nothing.
std::int64_t layer_input_width(const LayerShape& layer);
/// Its queries and keys turn with their positions.
bool turns(const Description& description, std::int64_t layer_index);
/// The layer whose keys and values one attends to: itself, or the last of its kind that has any.
/// @throws Error{invalid_argument} where there is none
std::int64_t kv_source(const ModelShape& shape, std::int64_t layer_index);

/// What attention has of a layer's heads beside keys and values; on the device, from the first of
/// the heads that attend. Either may be null.
struct HeadNumbers {
  const float* alibi_slopes = nullptr;
  const float* sinks = nullptr;
};

/// Attention of some of a layer's heads.
kernels::AttentionForm attention_form(const Description& description, std::int64_t layer_index,
                                      std::int64_t num_heads, HeadNumbers numbers);

/// @throws Error{unsupported} naming the key and value that is not understood
Description describe(const weights::Weights& weights, const ModelShape& shape);

}  // namespace tessera::lm
