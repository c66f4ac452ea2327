#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sequences.h"
#include "tessera/lm/perplexity.h"

/// How the windows of a text are run through a model.
namespace tessera::lm::quality {

/// Tokens [begin, end) that see each other; those from `first_scored` are predicted. The last is
/// predicted and nothing after it, so it is not run.
struct Window {
  std::int64_t begin, end, first_scored;

  std::int64_t run_tokens() const { return end - begin - 1; }
};

/// One step of windows side by side: slot i runs the tokens [offset, offset + chunk) of windows[i].
struct WindowStep {
  std::vector<SequenceStep> batch;  ///< [windows]
  std::int64_t num_tokens = 0;      ///< of all
  std::int64_t num_rows = 0;        ///< that predict; of a part without one the last
};

/// One model's side: its cache and the logits of a step.
class WindowRunner {
 public:
  WindowRunner(const LanguageModel& model, std::int64_t num_slots, std::int64_t max_tokens)
      : model_(model), slots_(model, num_slots, max_tokens) {}

  /// The logits [rows][vocab] that predict a scored token.
  std::span<const float> run(std::span<const Window> windows, std::span<const std::int32_t> tokens,
                             std::int64_t offset, std::int64_t chunk);

 protected:
  WindowStep step_of(std::span<const Window> windows, std::span<const std::int32_t> tokens,
                     std::int64_t offset, std::int64_t chunk) const;
  std::span<float> logits_of(std::int64_t num_rows);

  const LanguageModel& model_;
  Slots slots_;

 private:
  std::vector<float> logits_;
};

/// The side of a reference, whose layers run once for a text where their states are kept.
class ReferenceRunner : private WindowRunner {
 public:
  /// @param states where to find and to keep them, or null
  ReferenceRunner(const LanguageModel& model, std::int64_t num_slots, std::int64_t max_tokens,
                  ReferenceStates* states, ReferenceStates::Key key);

  std::span<const float> run(std::span<const Window> windows, std::span<const std::int32_t> tokens,
                             std::int64_t offset, std::int64_t chunk);
  /// Says that all windows were run.
  void keep();

 private:
  void run_layers(const WindowStep& step);

  ReferenceStates* states_;
  ReferenceStates::Key key_;
  bool known_;
  std::vector<float> hidden_;  ///< [rows][hidden_size] of a step
  std::vector<float> layers_;  ///< [tokens][hidden_size] of a step
  std::vector<float> kept_;    ///< [rows][hidden_size] of all steps so far
  std::size_t next_ = 0;       ///< in the states that are known
};

}  // namespace tessera::lm::quality
