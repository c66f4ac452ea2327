#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tessera/core/device.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/provenance.h"
#include "tessera/core/record.h"
#include "tessera/cost/kernel_set.h"
#include "tessera/cost/op.h"

namespace tessera::cost {

/// Work of one decoder layer on one micro-batch.
struct LayerWork {
  Phase phase = Phase::prefill;
  double batch_size = 1;      ///< sequences
  double tokens = 1;          ///< new tokens per sequence: chunk length in prefill, 1 in decode
  double context_tokens = 0;  ///< tokens already in the KV cache, per sequence
};

}  // namespace tessera::cost

namespace tessera {

template <>
struct Fields<cost::LayerWork> {
  using Work = cost::LayerWork;
  static constexpr auto list = std::tuple{
      field<&Work::phase>({.name = "phase",
                           .doc = "Prompt pass or one-token pass",
                           .as_option = AsOption::required}),
      field<&Work::batch_size>({.name = "batch_size",
                                .doc = "Sequences",
                                .min = 1e-9,
                                .max = 1e9,
                                .as_option = AsOption::defaulted}),
      field<&Work::tokens>({.name = "tokens",
                            .doc = "New tokens per sequence; required in prefill, 1 in decode",
                            .unit = "tokens",
                            .min = 1e-9,
                            .max = 1e9}),
      field<&Work::context_tokens>({.name = "context_tokens",
                                    .doc = "Tokens in the KV cache before, per sequence",
                                    .unit = "tokens",
                                    .min = 0,
                                    .max = 1e9,
                                    .as_option = AsOption::defaulted})};
};

}  // namespace tessera

namespace tessera::cost {

/// A time, where it comes from, and whether it leaves what was fitted.
struct Prediction {
  Sourced seconds;
  std::string method;                  ///< "regression", "operator", "roofline", ...
  std::optional<std::string> outside;  ///< why it leaves the fitted range; absent: it does not
};

/// Predicts times on one device, or on a tensor-parallel group of such, positive and finite.
/// Shapes are always those of the whole model.
class LatencyModel {
 public:
  virtual ~LatencyModel() = default;
  /// One decoder layer at `bitwidth`. @throws Error{unsupported} when no kernel runs that bitwidth
  /// here.
  virtual Prediction layer(const LayerShape& layer, std::int32_t bitwidth, std::int32_t kv_bitwidth,
                           const LayerWork& work) const = 0;
  /// The part of `layer` that attention is: scores, softmax and values, without the products with
  /// weights. With 16-bit keys and values, or where attention was measured with others, the rest of
  /// the layer is the same at any context, up to rounding.
  virtual Prediction attention(const LayerShape& layer, std::int32_t bitwidth,
                               std::int32_t kv_bitwidth, const LayerWork& work) const = 0;
  /// The part of `layer` that its experts are, with what brings rows to other devices and back; 0
  /// where it has none.
  virtual Prediction experts(const LayerShape& layer, std::int32_t bitwidth,
                             const LayerWork& work) const = 0;
  /// Token and position embedding for `rows` tokens.
  virtual Prediction embedding(const ModelShape& model, double rows) const = 0;
  /// Final norm and LM head for `rows` tokens (one per sequence: only the last position is
  /// sampled).
  virtual Prediction lm_head(const ModelShape& model, double rows) const = 0;

  double layer_s(const LayerShape& shape, std::int32_t bitwidth, std::int32_t kv_bitwidth,
                 const LayerWork& work) const {
    return layer(shape, bitwidth, kv_bitwidth, work).seconds.value;
  }
  double attention_s(const LayerShape& shape, std::int32_t bitwidth, std::int32_t kv_bitwidth,
                     const LayerWork& work) const {
    return attention(shape, bitwidth, kv_bitwidth, work).seconds.value;
  }
  double experts_s(const LayerShape& shape, std::int32_t bitwidth, const LayerWork& work) const {
    return experts(shape, bitwidth, work).seconds.value;
  }
  double embedding_s(const ModelShape& model, double rows) const {
    return embedding(model, rows).seconds.value;
  }
  double lm_head_s(const ModelShape& model, double rows) const {
    return lm_head(model, rows).seconds.value;
  }
  /// Whether no time ever falls, by as little as rounding, where batch_size, tokens, context_tokens
  /// or rows grow. What carries measurements over by ratios may fall a little.
  virtual bool is_monotone() const = 0;
};

/// Roofline from the data sheet: each matrix takes max(operations / rate, bytes / bandwidth) plus
/// what the rule adds per token and per matrix; of experts, the expected number that the rows touch
/// is read. Attention: causal, windowed where the layer is, at the FP16 rate. Provenance
/// `modelled`.
/// @throws Error{unsupported} from `layer` for a bitwidth without a rule, or whose compute dtype
/// has no rate on the device; embedding and LM head run by the 16-bit rule.
std::unique_ptr<LatencyModel> make_roofline(const Device& device, const KernelSet& kernels);

}  // namespace tessera::cost
