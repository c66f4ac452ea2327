#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/record.h"
#include "tessera/core/units.h"

namespace tessera {

/// Bitwidths that a KV cache may have: whole bits in [kMinKvBitwidth, kMaxKvBitwidth].
inline constexpr std::int32_t kMinKvBitwidth = 2, kMaxKvBitwidth = 16;

/// Closed range of an architecture field.
struct SizeRange {
  std::int64_t low;
  std::int64_t high;
};

// Far above any model that exists, and low enough that products of three of them fit 64 bits.
inline constexpr SizeRange kSizeRange{1, std::int64_t{1} << 24};
inline constexpr SizeRange kLayersRange{1, 10'000};
inline constexpr SizeRange kHeadsRange{1, std::int64_t{1} << 16};
inline constexpr SizeRange kHeadDimRange{1, std::int64_t{1} << 16};
inline constexpr SizeRange kExpertsRange{1, std::int64_t{1} << 16};
inline constexpr SizeRange kVocabRange{1, std::int64_t{1} << 28};
inline constexpr SizeRange kTokensRange{1, std::int64_t{1} << 28};
// Beyond this a count is no longer exact in a double, and so not in Lua or JSON.
inline constexpr auto kMaxParameters = static_cast<std::int64_t>(kMaxExactInteger);

/// One kind of weight matrix of a decoder layer; these are what quantisation applies to.
struct LinearShape {
  std::string name;  ///< "q_proj", "up_proj", "experts.up_proj"
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  std::int64_t num_copies = 1;  ///< experts; 1 for dense layers
  std::int64_t num_active = 1;  ///< copies that one token passes through
  /// Devices that hold as many other copies each; of a whole model 1.
  std::int64_t num_holders = 1;

  std::int64_t parameters() const { return in_features * out_features * num_copies; }
  std::int64_t active_parameters() const { return in_features * out_features * num_active; }
  /// Copies here that one token passes through, on average.
  double mean_active() const {
    return static_cast<double>(num_active) / static_cast<double>(num_holders);
  }

  friend bool operator==(const LinearShape&, const LinearShape&) = default;
};

/// What mixes the tokens of a sequence through a state of fixed size, in place of keys and values
/// of each token.
enum class StateKind { short_convolution, mamba, mamba2, gated_delta_net, linear_attention };

template <>
inline constexpr auto kEnumNames<StateKind> =
    enum_names<StateKind>({{StateKind::short_convolution, "short_convolution"},
                           {StateKind::mamba, "mamba"},
                           {StateKind::mamba2, "mamba2"},
                           {StateKind::gated_delta_net, "gated_delta_net"},
                           {StateKind::linear_attention, "linear_attention"}});

/// What a layer keeps of a sequence however long it is.
struct LayerState {
  StateKind kind = StateKind::mamba2;
  std::int64_t num_heads = 1;  ///< that devices of a group divide; channels where there are none
  std::int64_t recurrent_values = 0;    ///< of the recurrence, as wide as its runtime computes it
  std::int64_t convolution_values = 0;  ///< of inputs that a short convolution looks back on, FP16
  std::int64_t recurrent_bits = 32;

  double bytes() const;

  friend bool operator==(const LayerState&, const LayerState&) = default;
};

/// A decoder layer, free of family names: matrices, attention geometry, and what stays in FP16.
/// What mixes tokens is attention, where num_heads is not 0, a state, both side by side, or nothing
/// in blocks that are a feed-forward network alone.
struct LayerShape {
  std::vector<LinearShape> linears;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t other_parameters = 0;  ///< norms, biases, router: never quantised
  /// Of these the biases of experts that a token does not visit; absent: none.
  std::optional<std::int64_t> idle_parameters;
  std::optional<std::int64_t>
      attention_window;  ///< tokens seen by sliding-window attention; absent: all
  /// Multi-head latent attention (DeepSeek-V2, section 2.1): the cache keeps, per token and for all
  /// heads together, a vector of latent_width and a rotary key of rope_width, the last part of
  /// head_dim. Absent: keys and values of every KV head.
  std::optional<std::int64_t> latent_width, rope_width;
  /// Keys that choose which tokens are attended to (DeepSeek-V3.2, MiniMax-M3): kept per token
  /// beside the latents or the keys and values, and the tokens that are chosen.
  std::optional<std::int64_t> index_width, index_tokens;
  /// Beside the tokens of its window a layer attends to everything through entries, each a latent
  /// that stands for so many tokens (DeepSeek-V4); an indexer chooses among them.
  std::optional<std::int64_t> tokens_per_entry;
  std::optional<std::int64_t> value_dim;  ///< of a head, where it is not head_dim
  bool shares_kv = false;  ///< attends to keys and values that an earlier layer keeps
  std::optional<LayerState> state;

  bool attends() const { return num_heads > 0; }
  std::int64_t value_width() const { return value_dim.value_or(head_dim); }  ///< of a head
  std::int64_t linear_parameters() const;                                    ///< all experts
  std::int64_t active_linear_parameters() const;                             ///< per token
  std::int64_t parameters() const { return linear_parameters() + other_parameters; }

  friend bool operator==(const LayerShape&, const LayerShape&) = default;
};

/// Where a ratio of a layer's KV heads is elsewhere, so many are: the whole heads nearest to it.
std::int64_t kv_heads_elsewhere(const LayerShape& layer, double ratio);

/// Values per token that one layer keeps in its cache, entries apart.
std::int64_t kv_values_per_token(const LayerShape& layer);

/// Bytes of the keys and values that one layer keeps of `tokens` of each of `sequences`.
double kv_cache_bytes(const LayerShape& layer, double sequences, double tokens, double kv_bitwidth);

/// Bytes of the entries that stand for `tokens` of each of `sequences`, whatever a window leaves of
/// these; 0 of a layer that makes none.
double kv_entry_bytes(const LayerShape& layer, double sequences, double tokens, double kv_bitwidth);

/// What mixes its tokens, and its feed-forward network: "attention to all, experts",
/// "gated delta net, dense".
std::string kind_of(const LayerShape& layer);

inline constexpr SizeRange kWidthRange{1, std::int64_t{1} << 32};  // heads x head_dim
inline constexpr SizeRange kCountRange{0, kMaxParameters};

/// A whole number of an architecture, in its range.
constexpr FieldSpec size_spec(std::string_view name, std::string_view doc, SizeRange range,
                              std::string_view unit = {}) {
  return {.name = name,
          .doc = doc,
          .unit = unit,
          .min = static_cast<double>(range.low),
          .max = static_cast<double>(range.high)};
}

/// The same, known to the program alone.
constexpr FieldSpec inner_size_spec(std::string_view name, std::string_view doc, SizeRange range) {
  FieldSpec spec = size_spec(name, doc, range);
  spec.in_scripts = false;
  return spec;
}

template <>
struct Fields<LinearShape> {
  static constexpr auto list = std::tuple{
      field<&LinearShape::name>({.name = "name", .doc = "Name"}),
      field<&LinearShape::in_features>(size_spec("in_features", "Inputs", kWidthRange)),
      field<&LinearShape::out_features>(size_spec("out_features", "Outputs", kWidthRange)),
      field<&LinearShape::num_copies>(size_spec("num_copies", "Experts", kExpertsRange)),
      field<&LinearShape::num_active>(
          size_spec("num_active", "Copies that one token passes through", kExpertsRange))};
  static void check(const LinearShape& linear, const FieldPath& path);
};

template <>
struct Fields<LayerState> {
  static constexpr auto list =
      std::tuple{field<&LayerState::kind>({.name = "kind", .doc = "What it is the state of"}),
                 field<&LayerState::num_heads>(
                     size_spec("num_heads", "Heads that devices of a group divide", kSizeRange)),
                 field<&LayerState::recurrent_values>(
                     size_spec("recurrent_values", "Numbers of the recurrence", kCountRange)),
                 field<&LayerState::convolution_values>(size_spec(
                     "convolution_values", "Inputs that a short convolution keeps", kCountRange)),
                 field<&LayerState::recurrent_bits>(size_spec(
                     "recurrent_bits", "Of a number of the recurrence", {8, 64}, "bits"))};
};

template <>
struct Fields<LayerShape> {
  static constexpr auto list = std::tuple{
      field<&LayerShape::linears>({.name = "linears", .doc = "Matrices"}),
      field<&LayerShape::num_heads>(
          size_spec("num_heads", "Query heads; 0 without attention", {0, kHeadsRange.high})),
      field<&LayerShape::num_kv_heads>(
          size_spec("num_kv_heads", "Key and value heads", {0, kHeadsRange.high})),
      field<&LayerShape::head_dim>(
          size_spec("head_dim", "Width of a head", {0, kHeadDimRange.high})),
      field<&LayerShape::other_parameters>(
          size_spec("other_parameters", "Norms, biases, router", kCountRange)),
      field<&LayerShape::idle_parameters>(
          {.name = "idle_parameters",
           .doc = "Of these the biases of experts that a token does not visit",
           .min = kCountRange.low,
           .max = kCountRange.high,
           .in_file = InFile::when_set}),
      field<&LayerShape::attention_window>({.name = "attention_window",
                                            .doc = "Sliding-window attention",
                                            .unit = "tokens",
                                            .min = kTokensRange.low,
                                            .max = kTokensRange.high,
                                            .in_file = InFile::when_set}),
      field<&LayerShape::latent_width>({.name = "latent_width",
                                        .doc = "Cached for all heads by latent attention",
                                        .min = kHeadDimRange.low,
                                        .max = kHeadDimRange.high,
                                        .in_file = InFile::when_set}),
      field<&LayerShape::rope_width>({.name = "rope_width",
                                      .doc = "Rotary key beside it, part of head_dim",
                                      .min = kHeadDimRange.low,
                                      .max = kHeadDimRange.high,
                                      .in_file = InFile::when_set}),
      field<&LayerShape::index_width>({.name = "index_width",
                                       .doc = "Key by which an indexer chooses tokens",
                                       .min = kHeadDimRange.low,
                                       .max = kHeadDimRange.high,
                                       .in_file = InFile::when_set}),
      field<&LayerShape::index_tokens>({.name = "index_tokens",
                                        .doc = "Tokens that it chooses",
                                        .unit = "tokens",
                                        .min = kTokensRange.low,
                                        .max = kTokensRange.high,
                                        .in_file = InFile::when_set}),
      field<&LayerShape::tokens_per_entry>({.name = "tokens_per_entry",
                                            .doc = "That an entry beside the window stands for",
                                            .unit = "tokens",
                                            .min = kTokensRange.low,
                                            .max = kTokensRange.high,
                                            .in_file = InFile::when_set}),
      field<&LayerShape::value_dim>({.name = "value_dim",
                                     .doc = "Width of a head's values where it is not its keys'",
                                     .min = kHeadDimRange.low,
                                     .max = kHeadDimRange.high,
                                     .in_file = InFile::when_set}),
      field<&LayerShape::shares_kv>(
          {.name = "shares_kv",
           .doc = "Attends to keys and values that an earlier layer keeps",
           .in_file = InFile::when_set}),
      field<&LayerShape::state>(
          {.name = "state", .doc = "Of fixed size for a sequence", .in_file = InFile::when_set})};
  static void check(const LayerShape& layer, const FieldPath& path);
};

}  // namespace tessera
