#pragma once

#include <cstdint>
#include <span>

/// What speculation is worth, in closed form.
namespace tessera::serving {

/// Tokens per step where each of `num_drafts` drafts whose predecessors passed is accepted with
/// probability `acceptance`: (1 - a^(g+1)) / (1 - a) (Leviathan et al., 2022, equation 1), the
/// bonus or residual token included; g + 1 for a = 1. `acceptance` in [0, 1], `num_drafts` >= 0.
double expected_tokens(double acceptance, std::int64_t num_drafts);

/// Tokens per step by cumulative rates: 1 + their sum, whatever the drafts depend on.
double mean_tokens(std::span<const double> rates);

/// A decode step of B requests takes base_s + per_token_s x tokens, and a pass of the draft model,
/// of which a step has one for each draft, draft_base_s + draft_per_sequence_s x B. All in s, >= 0.
struct SpeculationTimes {
  double base_s = 0;
  double per_token_s = 0;
  double draft_base_s = 0;
  double draft_per_sequence_s = 0;
};

/// Requests in a batch up to which speculation yields more tokens per second than none:
/// [base (E - 1) - g draft_base] / [per_token (g + 1 - E) + g draft_per_sequence], for E tokens per
/// step. 0 where it never pays, infinity where it always does.
double break_even_batch(double tokens_per_step, std::int64_t num_drafts,
                        const SpeculationTimes& times);

/// Tokens per second with speculation over those without, at a batch. `batch_size` > 0; NaN where
/// steps take no time at all.
double speed_up(double tokens_per_step, std::int64_t num_drafts, double batch_size,
                const SpeculationTimes& times);

}  // namespace tessera::serving
