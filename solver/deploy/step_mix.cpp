#include "tessera/solver/deploy/step_mix.h"

namespace tessera::solver {

double step_s(const serving::StepCost& cost, const StepMix& mix) {
  serving::StepLoad load;
  load.num_decodes = load.decode_tokens = mix.num_decodes;
  load.decode_context_tokens = mix.num_decodes * mix.context_tokens;
  load.num_requests = load.num_sampled = mix.num_decodes + mix.num_prompts;
  load.tokens = mix.num_decodes + mix.num_prompts * mix.prompt_tokens;
  load.context_tokens = load.decode_context_tokens + mix.num_prompts * mix.prompt_context_tokens;
  load.chunks.assign(static_cast<std::size_t>(mix.num_prompts),
                     {mix.prompt_tokens, mix.prompt_context_tokens});
  serving::Ticks ticks = 0;
  for (std::size_t k = 0; k < cost.num_stages(); ++k) {
    ticks += cost.stage(load, k) + (k + 1 < cost.num_stages() ? cost.hop(load, k) : 0);
  }
  return serving::to_seconds(ticks);
}

}  // namespace tessera::solver
