#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/json_fwd.h"
#include "tessera/core/layer_shape.h"

namespace tessera {

/// Matrices of a kind that a checkpoint quantised already keeps in 16 bits.
struct KeptLinear {
  std::string name;  ///< of LinearShape
  double share = 1;  ///< of the layers

  friend bool operator==(const KeptLinear&, const KeptLinear&) = default;
};

/// An encoder of pictures or sound beside the text decoder, which plans of text load and never run.
struct Tower {
  std::string name;             ///< "vision", "audio"
  std::int64_t parameters = 0;  ///< 0: its configuration does not say

  friend bool operator==(const Tower&, const Tower&) = default;
};

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
  std::int64_t layer_embedding_parameters = 0;  ///< tables of inputs that each layer gets by token
  std::int64_t embedding_other_parameters =
      0;  ///< projections into the hidden size, embedding norm
  std::int64_t lm_head_parameters =
      0;                        ///< of the matrix and its bias, also when it is the embedding's
  bool tied_embeddings = true;  ///< LM head shares the token embedding
  std::int64_t final_other_parameters = 0;  ///< final norm, projection out of the hidden size
  std::string source;                       ///< where the architecture was read
  /// The checkpoint that was named, as typed ("Qwen/Qwen2.5-7B-Instruct-AWQ", "llama3.1:8b"), where
  /// that is more than the name of the shape; how its weights are stored, as far as the name tells.
  std::optional<std::string> checkpoint, checkpoint_format;
  std::optional<double> checkpoint_bits;
  /// Weights along the inputs of its matrices that share a scale, where a cut must not part them.
  std::optional<std::int64_t> checkpoint_group_size;
  std::vector<KeptLinear> checkpoint_kept;
  std::vector<Tower> towers;
  /// Layers behind the last that guess tokens further on (MTP): in the checkpoint, loaded for
  /// drafts alone, and in no other count. Their parameters are about those of as many last layers.
  std::int64_t next_token_layers = 0, next_token_parameters = 0;

  const LayerShape& layer(std::int64_t index) const {
    return layer_classes[static_cast<std::size_t>(layer_class[static_cast<std::size_t>(index)])];
  }

  std::int64_t num_parameters() const;  ///< tied embeddings counted once, no towers
  std::int64_t num_active_parameters()
      const;  ///< that one token passes through (mixture of experts); else all
  std::int64_t layer_parameters() const;  ///< of the first layer
  std::int64_t tower_parameters() const;  ///< of all towers whose sizes are said

  /// Bytes that one token of one sequence adds to the KV cache over ALL layers, window or not.
  double kv_bytes_per_token(double kv_bitwidth) const;

  /// Bytes that a sequence keeps over all layers however long it is.
  double state_bytes_per_sequence() const;
  bool has_state() const { return state_bytes_per_sequence() > 0; }

  /// "30 of gated delta net, experts; 10 of attention to all, experts", in the order of the first
  /// of each; "" where all layers are of one kind.
  std::string layer_kinds() const;

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

// What a model's shape and its description in words have in common.
inline constexpr FieldSpec kNumLayersSpec = size_spec("num_layers", "Decoder layers", kLayersRange);
inline constexpr FieldSpec kHiddenSizeSpec =
    size_spec("hidden_size", "Width of the residual stream", kSizeRange);
inline constexpr FieldSpec kNumHeadsSpec = size_spec("num_heads", "Query heads", kHeadsRange);
inline constexpr FieldSpec kFfnSizeSpec =
    size_spec("ffn_size", "Width of the feed-forward network (of one expert)", kSizeRange);
inline constexpr FieldSpec kVocabSizeSpec =
    size_spec("vocab_size", "Tokens in the vocabulary", kVocabRange);
inline constexpr FieldSpec kMaxContextSpec =
    size_spec("max_context_tokens", "Longest context", kTokensRange, "tokens");
inline constexpr FieldSpec kTiedEmbeddingsSpec{.name = "tied_embeddings",
                                               .doc = "The LM head is the token embedding"};

template <>
struct Fields<KeptLinear> {
  static constexpr auto list =
      std::tuple{field<&KeptLinear::name>({.name = "name", .doc = "Name of the matrix"}),
                 field<&KeptLinear::share>(
                     {.name = "share", .doc = "Share of the layers", .min = 0, .max = 1})};
};

template <>
struct Fields<Tower> {
  static constexpr auto list = std::tuple{
      field<&Tower::name>({.name = "name", .doc = "vision or audio"}),
      field<&Tower::parameters>(size_spec(
          "parameters", "About so many; 0: its configuration does not say", kCountRange))};
};

template <>
struct Fields<ModelShape> {
  static constexpr auto list = std::tuple{
      field<&ModelShape::name>({.name = "name", .doc = "Name"}),
      field<&ModelShape::family>({.name = "family", .doc = "Architecture family"}),
      field<&ModelShape::num_layers>(kNumLayersSpec),
      field<&ModelShape::hidden_size>(kHiddenSizeSpec),
      field<&ModelShape::num_heads>(
          size_spec("num_heads", "Query heads; 0 without attention", {0, kHeadsRange.high})),
      field<&ModelShape::num_kv_heads>(
          size_spec("num_kv_heads", "Key and value heads", {0, kHeadsRange.high})),
      field<&ModelShape::head_dim>(
          size_spec("head_dim", "Width of a head", {0, kHeadDimRange.high})),
      field<&ModelShape::ffn_size>(size_spec(
          "ffn_size", "Width of the feed-forward network (of one expert)", {0, kSizeRange.high})),
      field<&ModelShape::vocab_size>(kVocabSizeSpec),
      field<&ModelShape::max_context_tokens>(kMaxContextSpec),
      field<&ModelShape::num_parameters>(
          {.name = "num_parameters", .doc = "All parameters, tied embeddings once"}),
      field<&ModelShape::num_active_parameters>(
          {.name = "num_active_parameters", .doc = "Parameters that one token passes through"}),
      field<&ModelShape::layer_parameters>(
          {.name = "layer_parameters", .doc = "Parameters of the first decoder layer"}),
      field<&ModelShape::state_bytes_per_sequence>(
          {.name = "state_bytes_per_sequence",
           .doc = "Kept for a sequence however long it is: of convolutions and recurrences",
           .unit = "bytes"}),
      field<&ModelShape::layer_kinds>(
          {.name = "layer_kinds",
           .doc = "How many layers are of which kind; empty where all are alike"}),
      field<&ModelShape::layer_classes>(
          {.name = "layer_classes", .doc = "Distinct shapes of layers", .in_scripts = false}),
      field<&ModelShape::layer_class>(
          inner_size_spec("layer_class", "Shape of each layer, by index", {0, kLayersRange.high})),
      field<&ModelShape::token_embedding_parameters>(
          inner_size_spec("token_embedding_parameters", "Token embedding", kCountRange)),
      field<&ModelShape::position_embedding_parameters>(
          inner_size_spec("position_embedding_parameters", "Learned positions", kCountRange)),
      field<&ModelShape::layer_embedding_parameters>(
          {.name = "layer_embedding_parameters",
           .doc = "Tables of inputs that each layer gets by token",
           .min = 0,
           .max = static_cast<double>(kMaxParameters),
           .in_file = InFile::when_set,
           .in_scripts = false}),
      field<&ModelShape::embedding_other_parameters>(inner_size_spec(
          "embedding_other_parameters", "Projection and norm of embeddings", kCountRange)),
      field<&ModelShape::lm_head_parameters>(
          inner_size_spec("lm_head_parameters", "LM head, with its bias", kCountRange)),
      field<&ModelShape::tied_embeddings>(kTiedEmbeddingsSpec),
      field<&ModelShape::final_other_parameters>(
          inner_size_spec("final_other_parameters", "Final norm and projection", kCountRange)),
      field<&ModelShape::source>({.name = "source", .doc = "Where the architecture was read"}),
      field<&ModelShape::checkpoint>({.name = "checkpoint",
                                      .doc = "The checkpoint that was named, as typed",
                                      .in_file = InFile::when_set}),
      field<&ModelShape::checkpoint_format>(
          {.name = "checkpoint_format",
           .doc = "How it stores weights, by its name: awq, gptq, fp8, gguf q4_k_m, ...",
           .in_file = InFile::when_set}),
      field<&ModelShape::checkpoint_bits>({.name = "checkpoint_bits",
                                           .doc = "Bits of a weight there, by its name",
                                           .unit = "bits",
                                           .min = 1,
                                           .max = 16,
                                           .in_file = InFile::when_set}),
      field<&ModelShape::checkpoint_group_size>(
          {.name = "checkpoint_group_size",
           .doc = "Weights along a matrix's inputs that share a scale there, or a side of its FP8 "
                  "blocks, by its configuration",
           .unit = "weights",
           .min = 1,
           .max = 1 << 24,
           .in_file = InFile::when_set}),
      field<&ModelShape::checkpoint_kept>(
          {.name = "checkpoint_kept",
           .doc = "Matrices that it keeps in 16 bits, and in which share of the layers",
           .in_file = InFile::when_set}),
      field<&ModelShape::towers>(
          {.name = "towers",
           .doc = "Encoders of pictures and sound that are loaded beside the text decoder",
           .in_file = InFile::when_set}),
      field<&ModelShape::next_token_layers>(
          {.name = "next_token_layers",
           .doc = "Layers behind the last that guess tokens further on (MTP): loaded for drafts "
                  "alone, and in no other count",
           .min = 0,
           .max = static_cast<double>(kLayersRange.high),
           .in_file = InFile::when_set}),
      field<&ModelShape::next_token_parameters>(
          {.name = "next_token_parameters",
           .doc = "About so many of those, copies of the embeddings apart",
           .min = 0,
           .max = static_cast<double>(kMaxParameters),
           .in_file = InFile::when_set})};
  /// Refuses a shape whose counts would be inexact or whose parts do not fit together; afterwards
  /// every count of ModelShape is positive and free of overflow.
  static void check(const ModelShape& model, const FieldPath& path);
};

template <>
struct Fields<ModelSpec> {
  static constexpr auto list = std::tuple{
      field<&ModelSpec::name>({.name = "name", .doc = "Name to refer to it by"}),
      field<&ModelSpec::family>(
          {.name = "family",
           .doc =
               "Whose conventions hold for norms, biases and positions: opt, llama, qwen2, ..."}),
      field<&ModelSpec::num_layers>(kNumLayersSpec),
      field<&ModelSpec::hidden_size>(kHiddenSizeSpec),
      field<&ModelSpec::num_heads>(kNumHeadsSpec),
      field<&ModelSpec::num_kv_heads>(
          size_spec("num_kv_heads", "Key and value heads; default: num_heads", kHeadsRange)),
      field<&ModelSpec::head_dim>(size_spec(
          "head_dim", "Width of a head; default: hidden_size / num_heads", kHeadDimRange)),
      field<&ModelSpec::ffn_size>(kFfnSizeSpec),
      field<&ModelSpec::vocab_size>(kVocabSizeSpec),
      field<&ModelSpec::max_context_tokens>(kMaxContextSpec),
      field<&ModelSpec::gated_ffn>(
          {.name = "gated_ffn",
           .doc = "Three matrices instead of two; checked against the family"}),
      field<&ModelSpec::tied_embeddings>(kTiedEmbeddingsSpec),
      field<&ModelSpec::num_experts>(size_spec(
          "num_experts", "Experts per layer (mixture-of-experts families)", kExpertsRange)),
      field<&ModelSpec::num_active_experts>(
          size_spec("num_active_experts", "Experts that one token visits", kExpertsRange)),
      field<&ModelSpec::attention_window>(
          size_spec("attention_window", "Sliding-window attention", kTokensRange, "tokens"))};
};

/// Writes the spec as the family's config.json and reads that, so there is one truth per family.
/// @throws Error{invalid_argument, out_of_range, unsupported} naming the field as spelt here.
ModelShape model_from_spec(const ModelSpec& spec);

/// Reads a Hugging Face `config.json`.
/// @throws Error{unsupported} naming the architecture for families that are not understood
/// (state-space, encoder-decoder, ...),
///         Error{invalid_argument} for missing or inconsistent fields. Nothing is guessed.
ModelShape model_from_hf_config(const Json& config, const std::string& name,
                                const std::string& path);

/// Tessera's own architecture file: `{ "name", "source", "published_parameters",
/// "published_active_parameters", "parameters_source", "config": { Hugging Face keys } }`, of which
/// `name` and `config` are required; beside them `ids`, what else a model of this shape is called;
/// or a bare config.json, named after its
/// folder.
/// @throws as model_from_hf_config, and for unknown fields beside `config`.
ModelShape model_from_json(const Json& json, const std::string& path);

/// Full description, every field; `model_shape_from_json` reads it back exactly (saved plans carry
/// it).
Json to_json(const ModelShape& model);
ModelShape model_shape_from_json(const Json& json, const std::string& path);

/// Families that `model_from_hf_config` understands ("opt", ...), sorted.
std::vector<std::string> known_model_families();

}  // namespace tessera
