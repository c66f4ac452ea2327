#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/indicator.h"
#include "tessera/lm/language_model.h"
#include "tessera/lm/text_input.h"

/// The ground truth of indicators: what happens to the model's predictions when one layer at a time
/// is quantised and all else stays.
///
/// Layers below the changed one are not run again: the hidden states before layer i of the model as
/// it is are kept, [tokens, hidden_size] floats, and move up by one layer when layer i is done.
/// With L layers of P parameters each, a head of H, T tokens and B bitwidths that takes
///
///     2 T B (P L (L + 1) / 2 + L H)  multiplications and additions,
///
/// and for the divergence 2 T L H more (the base model's logits, once per layer). SmolLM2-135M,
/// where L = 30, P = 3.54 M and H = 28.3 M, with 16 x 256 tokens and 3, 4 and 8 bits: 61 T; in five
/// minutes that is 205 G/s.
namespace tessera::lm {

enum class LayerEffect {
  loss,       ///< rise of the negative log likelihood of the text
  divergence  ///< KL(model as it is || with the layer changed), over the vocabulary
};

/// Of one bitwidth in one layer, over the pieces, nats per token.
struct LayerEffectCell {
  double mean = 0, standard_error = 0;
};

struct LayerLossProgress {
  std::int64_t num_done = 0, num_layers = 0;  ///< layers, those of an earlier run among them
  std::span<const LayerEffectCell> cells;     ///< by bitwidth, of the layer that was done last
  double seconds = 0;                         ///< spent so far, in earlier runs too
};

struct LayerLossRequest {
  TextInput input;
  LayerEffect effect = LayerEffect::loss;
  std::vector<std::int32_t> bitwidths = {3, 4, 8};  ///< of 3, 4, 8; 16 is added: no effect
  LayerForm form;                                   ///< of the changed layer, but for its bitwidth
  std::int64_t num_pieces = 16;                     ///< at least 2: their spread is the noise
  std::int64_t piece_tokens = 256;  ///< at least 2; consecutive pieces from the text's start
  /// Where the indicator goes, as JSON. What is done is kept in `out`.part after every layer, and
  /// the same request goes on from there; it is removed at the end. "": nothing is written.
  std::string out;
  std::function<void(const LayerLossProgress&)> progress = {};
  const std::atomic<bool>* stop = nullptr;  ///< set by Ctrl-C
};

/// An indicator of kind "loss" or "divergence": omega is the mean effect, or 0 where that is
/// negative (`source` counts these), and standard_error that of the mean over the pieces: of their
/// differences to the model as it is, so far smaller than that of the loss itself.
/// @throws Error{invalid_argument, out_of_range} naming the field, also where `out`.part is of
/// another request; Error{interrupted} saying how far it came; what with_layer throws
Indicator measure_layer_loss(const LanguageModel& model, const LayerLossRequest& request);

}  // namespace tessera::lm

template <>
inline constexpr auto tessera::kEnumNames<tessera::lm::LayerEffect> =
    tessera::enum_names<tessera::lm::LayerEffect>({{tessera::lm::LayerEffect::loss, "loss"},
                                                   {tessera::lm::LayerEffect::divergence,
                                                    "divergence"}});
