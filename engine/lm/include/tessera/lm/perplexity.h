#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/lm/language_model.h"
#include "tessera/lm/text_input.h"

namespace tessera::lm {

/// Context of the papers (GPTQ, SplitQuant, LLM-PQ).
inline constexpr std::int64_t kPaperContextTokens = 2048;

struct PerplexityProgress {
  std::int64_t num_tokens = 0;    ///< predicted so far
  std::int64_t total_tokens = 0;  ///< to be predicted
  double loss_nats = 0;           ///< so far
  double tok_s = 0;
};

/// What the layers of a reference gave for a text. Whoever measures several models against one
/// reference keeps them, and the reference's layers run for the first alone. Empty before that.
struct ReferenceStates {
  /// What they are of.
  struct Key {
    std::vector<std::int32_t> tokens;
    std::int64_t context_tokens = 0;
    std::optional<std::int64_t> stride;
    std::int64_t chunk_tokens = 0;
    bool operator==(const Key&) const = default;
  };
  static constexpr std::size_t kMostFloats = std::size_t{64} << 20;  ///< more are not kept

  Key key;
  std::vector<float> hidden;  ///< [predicted tokens][hidden_size], behind the last layer
};

/// The perplexity of a text, by one of two protocols:
///
///  without `stride`  the papers': the text is encoded once and cut into segments of
///                    `context_tokens` that share nothing; every token of a segment but its first
///                    is predicted from those before it, and exp of the mean of the negative log
///                    likelihoods is the perplexity (Frantar et al., ICLR 2023, published code).
///                    As there, what is left at the end is not scored; but a text shorter than a
///                    segment is one.
///  with `stride`     a window of `context_tokens` that moves by `stride`: of each only those
///                    tokens are scored that no window before it had (the page "Perplexity of
///                    fixed-length models" of Hugging Face). The last window ends with the text.
///                    The mean is over tokens; that page's code counts one less per window.
struct PerplexityRequest {
  TextInput input;
  /// From 2 up to the model's max_context_tokens; absent: kPaperContextTokens, or the model's where
  /// that is less.
  std::optional<std::int64_t> context_tokens;
  std::optional<std::int64_t> stride;      ///< in [1, context_tokens]
  std::optional<std::int64_t> max_tokens;  ///< at least 2: of the text, from its start
  /// KL(reference || model) and the rise of the loss over the reference's are measured too. Of the
  /// same vocabulary.
  const LanguageModel* reference = nullptr;
  std::shared_ptr<ReferenceStates> reference_states = {};  ///< of that reference; absent: not kept
  /// Run at once, so many rows of logits being in memory: those of one segment in pieces, or of
  /// several short ones. The result does not depend on it, where the model's steps do not.
  std::int64_t chunk_tokens = 256;
  std::function<void(const PerplexityProgress&)> progress = {};  ///< after each chunk
  const std::atomic<bool>* stop = nullptr;                       ///< set by Ctrl-C
};

/// Standard errors are those of batch means: the text in pieces of at least 256 consecutive
/// predicted tokens, which are made longer while more than 63 of them would remain (so 32 to 63
/// pieces of a long text), since what the tokens of a passage cost is correlated. Pieces are taken
/// to be independent. They say what another text of this kind and length might give. Absent for
/// fewer than two pieces.
struct Perplexity {
  double perplexity = 0;                 ///< exp(loss_nats)
  double loss_nats = 0;                  ///< per predicted token
  std::optional<double> standard_error;  ///< of loss_nats
  std::int64_t num_tokens = 0;           ///< predicted
  std::int64_t num_segments = 0;         ///< or windows, begun
  std::int64_t num_left_tokens = 0;      ///< behind the last whole segment, not scored
  std::int64_t context_tokens = 0;       ///< of a segment
  double seconds = 0;
  double tok_s = 0;  ///< run through the model, of which a stride scores some again
  /// Sum over the vocabulary of p_ref (log p_ref - log p), mean over tokens. Never below 0 but for
  /// rounding, about 1e-7, which is left as it is.
  std::optional<double> kl_nats, kl_standard_error;
  /// loss_nats less the reference's on the same tokens, and the standard error of that difference,
  /// which is far smaller than either loss's.
  std::optional<double> loss_increase_nats, loss_increase_standard_error;
  bool partial = false;  ///< stopped: of the tokens until then
};

/// The same for any number of threads. Logits are in memory for `chunk_tokens` at a time.
/// @throws Error{out_of_range, invalid_argument} for a request that cannot be met, naming its
/// field, and for logits that are not finite; Error{interrupted} where it was stopped before the
/// first token
Perplexity measure_perplexity(const LanguageModel& model, const PerplexityRequest& request);

}  // namespace tessera::lm
