#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/lm/generate.h"
#include "tessera/lm/sampling.h"
#include "tessera/serving/ticks.h"

namespace tessera::run {

/// What is to be answered.
struct Prompt {
  std::vector<std::int32_t> tokens;  ///< one at least
  std::int64_t max_tokens = 128;     ///< at most; fewer where the model's context ends
  lm::SamplingOptions sampling;
  bool ignore_stop_tokens = false;  ///< goes on where the model ends its text
  // What clients of a server ask for beside.
  lm::Adjustments adjustments = {};
  std::vector<std::int32_t> stop_tokens = {};  ///< that end it too, whatever the model says
  /// Log-probabilities of its tokens, and of so many likely ones beside each.
  std::optional<std::int64_t> num_top = {};
  bool scores_prompt = false;  ///< and those of the prompt's own tokens, as num_top has it
};

/// Tokens that an answer may have in a context of so many.
inline std::int64_t most_new(const Prompt& prompt, std::int64_t max_context_tokens) {
  return std::min(prompt.max_tokens, max_context_tokens - std::ssize(prompt.tokens));
}

struct Answer {
  std::vector<std::int32_t> tokens = {};  ///< without the one that ended it
  lm::StopReason stop_reason = lm::StopReason::max_tokens;
  /// When its first and last token came, from the start of the run; kNever: it was answered before.
  serving::Ticks first_token = serving::kNever, last_token = serving::kNever;
};

/// Prompts and answers of a run, by number.
struct Answers {
  std::vector<Prompt> prompts;
  std::vector<std::optional<Answer>> done;  ///< [prompts]
};

}  // namespace tessera::run
