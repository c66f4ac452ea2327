#pragma once

#include <optional>
#include <string_view>
#include <vector>

// What the decoders of a family do with numbers, beside multiplying by the matrices that a
// ModelShape lists: the columns of the table of families that only a model that runs needs.
namespace tessera {

/// What a class does where its key is not written; without a key, what it always does. A key
/// "attn_config.alibi" lies in an object of that name.
struct Switch {
  bool on = false;
  const char* key = nullptr;
};

/// A number of a class: what its key says, or this one where it is not written. A key
/// "mlp_multipliers.1" is the second number of a list.
struct Setting {
  double value = 0;
  const char* key = nullptr;
};

/// A word that a key must say.
struct Choice {
  const char* key = nullptr;
  const char* word = nullptr;
};

/// Norms over queries and keys.
enum class QkNorm {
  none,
  head_width,           ///< a weight per feature of a head, shared by the heads
  head_width_and_bias,  ///< LayerNorms of that width
  head_alone,           ///< each head of layers that turn, without weights
  each_head,            ///< every head normed alone, by weights of its own
  all_heads             ///< the heads of a token normed as one row
};

enum class Norm { rms, layer };

/// Where the norms of a layer stand.
enum class NormPlaces {
  before,      ///< what attention and feed-forward network read
  after,       ///< what they give, before it is added (OLMo 2)
  both,        ///< Gemma 2, GLM-4
  after_sums,  ///< the hidden state, once it was added (OPT-350m)
};

enum class Positions {
  none,
  learned,  ///< a row of a table is added to the embedding
  rotary,
  alibi
};

/// Layers whose queries and keys turn with their position.
enum class RotaryLayers {
  all,
  windows,  ///< those that see a window, and all where there are no windows (Cohere 2)
  listed    ///< not every no_rope_layer_interval-th, or as no_rope_layers says (SmolLM3)
};

/// Which experts a token visits, and how much each counts.
struct Routing {
  bool sigmoid = false;                 ///< scores are sigmoids; else a softmax of all
  bool corrected = false;               ///< chosen by score plus a number of the file
  Switch normalise = {.on = true};      ///< the chosen ones' scores sum to 1
  Setting scale = {1};                  ///< and are multiplied by it
  const char* groups = nullptr;         ///< how many experts come in, where they do
  const char* active_groups = nullptr;  ///< of these so many are chosen first
  int best_of_group = 1;                ///< by the sum of so many of their best
  Choice grouped_where = {};            ///< where a key says so; without one, always
  bool shared_gate = false;             ///< the shared expert counts by a gate of its own
  bool of_inputs = false;               ///< what experts read is multiplied, not what they give
};

/// How a family spells the sizes of Mamba 2, and what its mixer does.
struct Mamba2Keys {
  const char* num_heads = "mamba_n_heads";
  const char* num_groups = "mamba_n_groups";
  int usual_groups = 1;
  const char* state = "mamba_d_state";
  int usual_state = 256;
  const char* kernel = "mamba_d_conv";
  Switch norm = {.on = true};
  bool normed_by_groups = false;  ///< the outputs of a group as one row; else all of them
  Switch gate_last = {};          ///< outputs are normed before their gate
};

struct Arithmetic {
  Norm norm = Norm::rms;
  Setting epsilon = {1e-6, "rms_norm_eps"};
  double norm_offset = 0;  ///< added to the weights of norms
  bool norm_weight = true;
  Switch norm_bias = {};
  NormPlaces places = NormPlaces::before;
  Switch norms_first = {.on = true};  ///< off: norms stand after the sums
  Switch parallel = {};      ///< attention and feed-forward network read the same hidden state
  bool shared_norm = false;  ///< parallel: behind the same norm
  bool embedding_norm = false;

  QkNorm qk_norm = QkNorm::none;
  Switch qk_normed = {.on = true};   ///< off: there are none
  bool qk_norm_turned = false;       ///< normed after they have turned (Hunyuan)
  Setting latent_epsilon = {1e-6};   ///< of the norms of latents (DeepSeek)
  bool state_by_head = false;        ///< what a key head of a delta net reads lies together
  bool normed_state_inputs = false;  ///< steps, B and C of Mamba (Jamba)
  Mamba2Keys mamba2 = {};
  bool output_gate = false;        ///< beside each query, for what its head gives (Qwen3-Next)
  bool value_norm = false;         ///< values are normed too, without weights (Gemma 4)
  const char* clip_key = nullptr;  ///< queries, keys and values stay between plus and minus it

  Positions positions = Positions::rotary;
  const char* positions_key = nullptr;  ///< "rope" where there are any; else they are as said
  int learned_offset = 0;               ///< rows of the table before position 0
  Switch alibi = {};                    ///< instead of rotary positions
  bool alibi_in_scale = false;          ///< Falcon scales the sum of product and bias
  Switch interleaved = {};              ///< pairs (2i, 2i + 1); else halves
  Setting rotary_part = {1, "partial_rotary_factor"};  ///< of a head's features that turn
  const char* rotary_width = nullptr;                  ///< or how many do
  Setting theta = {1e4, "rope_theta"};
  Setting local_theta = {};  ///< of layers with a window, which turn without scaling; 0: as all
  bool plain_in_windows = false;  ///< these turn by theta without scaling
  RotaryLayers rotary_layers = RotaryLayers::all;

  bool chunked = false;  ///< windows are chunks, in which a token sees those before it (Llama 4)
  /// Queries of layers that do not turn grow with the tokens before them: by
  /// 1 + slope log(1 + floor((position + 1) / tokens)).
  Switch tempered = {};
  Setting temper_tokens = {8192, "floor_scale"}, temper_slope = {0.1, "attn_scale"};

  Setting score_scale = {};                ///< scores are multiplied by it; 0: as below
  Setting score_width = {};                ///< or divided by its root; 0: of the head's width
  Switch divided_by_layer = {};            ///< and by the layer's number, from 1
  Switch scaled_scores = {.on = true};     ///< off: they are as they come
  bool sinks = false;                      ///< a score per head that no token has (gpt-oss)
  Setting score_cap = {}, logit_cap = {};  ///< 0 or null: none

  Setting activation_limit = {};  ///< SwiGLU of gpt-oss, clamped; 0: the activation as it is
  const char* activation = "silu";
  const char* activation_key = "hidden_act";  ///< nullptr: the class has no choice

  bool root_of_width = false;  ///< embeddings are multiplied by the root of the hidden size
  Setting embedding_scale = {1}, residual_scale = {1};
  Setting logit_scale = {1}, logit_divisor = {1};
  /// Falcon-H1: of what attention and the state read and give, of keys, gates and what networks
  /// give; and a list of those of what a state's first matrix gives: gates, inputs, B, C, steps.
  Setting attention_in_scale = {1}, attention_out_scale = {1}, key_scale = {1};
  Setting state_in_scale = {1}, state_out_scale = {1};
  const char* state_part_scales = nullptr;
  Setting gate_scale = {1}, down_scale = {1};
  Routing routing = {};
  /// Of Gemma 4: experts and a network read the hidden state side by side, each by norms of its
  /// own.
  Switch experts_beside_network = {};
  /// Of Gemma 3n: a token has several hidden states, of which layers read the first, predict all by
  /// a router and correct all by what they give (AltUp, Baykal et al., arXiv:2301.13310), beside
  /// each mixer a way of low rank (LAuReL, Menghani et al., arXiv:2411.07501).
  const char* num_streams = nullptr;
  /// Of each layer a share: only so many of a network's gates, by mean and spread of a token's,
  /// stay shut.
  const char* sparsity = nullptr;
  bool layer_scale = false;  ///< what leaves a layer is multiplied by a number of the file
  /// Flags that must have these values: others change what a layer computes.
  std::vector<Switch> only = {};
};

/// Of a family that engine/lm runs; of others nothing.
std::optional<Arithmetic> arithmetic_of(std::string_view family);

/// In order.
std::vector<std::string_view> families_with_arithmetic();

}  // namespace tessera
