#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/json_fwd.h"

namespace tessera {

/// Bitwidths that a KV cache may have: whole bits in [kMinKvBitwidth, kMaxKvBitwidth].
inline constexpr std::int32_t kMinKvBitwidth = 2, kMaxKvBitwidth = 16;

/// One kind of weight matrix of a decoder layer; these are what quantisation applies to.
struct LinearShape {
  std::string name;  ///< "q_proj", "up_proj", "experts.up_proj"
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  std::int64_t num_copies = 1;  ///< experts; 1 for dense layers
  std::int64_t num_active = 1;  ///< copies that one token passes through

  std::int64_t parameters() const { return in_features * out_features * num_copies; }
  std::int64_t active_parameters() const { return in_features * out_features * num_active; }

  friend bool operator==(const LinearShape&, const LinearShape&) = default;
};

/// A decoder layer, free of family names: matrices, attention geometry, and what stays in FP16.
struct LayerShape {
  std::vector<LinearShape> linears;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t other_parameters = 0;  ///< norms, biases, router: never quantised
  std::optional<std::int64_t>
      attention_window;  ///< tokens seen by sliding-window attention; absent: all

  std::int64_t linear_parameters() const;         ///< all experts
  std::int64_t active_linear_parameters() const;  ///< per token
  std::int64_t parameters() const { return linear_parameters() + other_parameters; }

  friend bool operator==(const LayerShape&, const LayerShape&) = default;
};

/// Bytes of the keys and values that one layer keeps of `tokens` of each of `sequences`.
double kv_cache_bytes(const LayerShape& layer, double sequences, double tokens, double kv_bitwidth);

/// Architecture of a decoder-only transformer: everything that costs need, nothing about weights.
struct ModelShape {
  std::string name;
  std::string family;  ///< "opt", "bloom", "llama", "qwen2", "qwen3", "qwen3_moe", "mistral", ...
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn_size = 0;  ///< of one expert for mixture-of-experts models
  std::int64_t vocab_size = 0;
  std::int64_t max_context_tokens = 0;

  std::vector<LayerShape> layer_classes;  ///< distinct shapes, >= 1
  std::vector<std::int32_t> layer_class;  ///< [num_layers] index into layer_classes

  std::int64_t token_embedding_parameters = 0;     ///< vocab_size x embedding width
  std::int64_t position_embedding_parameters = 0;  ///< learned positions; 0 for rotary and ALiBi
  std::int64_t embedding_other_parameters =
      0;  ///< projections into the hidden size, embedding norm
  std::int64_t lm_head_parameters =
      0;                        ///< of the matrix and its bias, also when it is the embedding's
  bool tied_embeddings = true;  ///< LM head shares the token embedding
  std::int64_t final_other_parameters = 0;  ///< final norm, projection out of the hidden size
  std::string source;                       ///< where the architecture was read

  const LayerShape& layer(std::int64_t index) const {
    return layer_classes[static_cast<std::size_t>(layer_class[static_cast<std::size_t>(index)])];
  }

  std::int64_t num_parameters() const;  ///< tied embeddings counted once
  std::int64_t num_active_parameters()
      const;  ///< that one token passes through (mixture of experts); else all
  std::int64_t layer_parameters() const;  ///< of the first layer

  /// Bytes that one token of one sequence adds to the KV cache over ALL layers, window or not.
  double kv_bytes_per_token(double kv_bitwidth) const;

  /// Bytes of the first decoder layer at `bitwidth`: matrices at that width, the rest in FP16, no
  /// quantisation metadata.
  double layer_bytes(double bitwidth) const;

  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

/// An architecture in Tessera's own words, for models that have no config.json. What is absent
/// follows the conventions of the family: biases, norms, position embeddings and Hugging Face's
/// defaults.
struct ModelSpec {
  std::string name;    ///< "" becomes the family's name
  std::string family;  ///< one of known_model_families()
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_heads = 0;
  std::int64_t ffn_size = 0;  ///< of one expert for mixture-of-experts families
  std::int64_t vocab_size = 0;
  std::int64_t max_context_tokens = 0;
  std::optional<std::int64_t> num_kv_heads;
  std::optional<std::int64_t> head_dim;
  std::optional<bool> gated_ffn;  ///< a check: refused where the family is built the other way
  std::optional<bool> tied_embeddings;
  std::optional<std::int64_t> num_experts;  ///< required by, and only for, mixture-of-experts
  std::optional<std::int64_t> num_active_experts;
  /// Tokens seen by sliding-window layers. Absent: Gemma keeps its family's window, the others see
  /// all tokens.
  std::optional<std::int64_t> attention_window;
};

/// Writes the spec as the family's config.json and reads that, so there is one truth per family.
/// @throws Error{invalid_argument, out_of_range, unsupported} naming the field as spelt here.
ModelShape model_from_spec(const ModelSpec& spec);

/// Reads a Hugging Face `config.json`.
/// @throws Error{unsupported} naming the architecture for families that are not understood (MLA,
/// state-space, encoder-decoder, ...),
///         Error{invalid_argument} for missing or inconsistent fields. Nothing is guessed.
ModelShape model_from_hf_config(const Json& config, const std::string& name,
                                const std::string& path);

/// Tessera's own architecture file: `{ "name", "source", "published_parameters",
/// "published_active_parameters", "parameters_source", "config": { Hugging Face keys } }`, of which
/// `name` and `config` are required; or a bare config.json, named after its folder.
/// @throws as model_from_hf_config, and for unknown fields beside `config`.
ModelShape model_from_json(const Json& json, const std::string& path);

/// Full description, every field; `model_shape_from_json` reads it back exactly (saved plans carry
/// it).
Json to_json(const ModelShape& model);
ModelShape model_shape_from_json(const Json& json, const std::string& path);

/// Families that `model_from_hf_config` understands ("opt", ...), sorted.
std::vector<std::string> known_model_families();

}  // namespace tessera
