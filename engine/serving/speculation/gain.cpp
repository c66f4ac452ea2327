#include "tessera/serving/gain.h"

#include <limits>

namespace tessera::serving {

// As a sum: 1 - a^(g+1) over 1 - a loses its digits near a = 1.
double expected_tokens(double acceptance, std::int64_t num_drafts) {
  double tokens = 1;
  for (std::int64_t i = 0; i < num_drafts; ++i) tokens = 1 + acceptance * tokens;
  return tokens;
}

double mean_tokens(std::span<const double> rates) {
  double tokens = 1;
  for (const double rate : rates) tokens += rate;
  return tokens;
}

double break_even_batch(double tokens_per_step, std::int64_t num_drafts,
                        const SpeculationTimes& times) {
  const double drafts = static_cast<double>(num_drafts);
  const double gain = times.base_s * (tokens_per_step - 1) - drafts * times.draft_base_s;
  const double loss =
      times.per_token_s * (drafts + 1 - tokens_per_step) + drafts * times.draft_per_sequence_s;
  if (gain <= 0) return 0;
  return loss > 0 ? gain / loss : std::numeric_limits<double>::infinity();
}

double speed_up(double tokens_per_step, std::int64_t num_drafts, double batch_size,
                const SpeculationTimes& times) {
  const double drafts = static_cast<double>(num_drafts);
  const double plain = times.base_s + times.per_token_s * batch_size;
  const double speculative =
      times.base_s + times.per_token_s * batch_size * (drafts + 1) +
      drafts * (times.draft_base_s + times.draft_per_sequence_s * batch_size);
  return tokens_per_step * plain / speculative;
}

}  // namespace tessera::serving
