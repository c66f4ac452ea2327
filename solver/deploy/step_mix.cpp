#include "tessera/solver/deploy/step_mix.h"

namespace tessera::solver {

StepTimes step_times(const serving::StepCost& cost, const StepMix& mix) {
  serving::StepLoad load;
  load.num_decodes = load.decode_tokens = mix.num_decodes;
  load.decode_context_tokens = mix.num_decodes * mix.context_tokens;
  load.num_requests = load.num_sampled = mix.num_decodes + mix.num_prompts;
  load.tokens = mix.num_decodes + mix.num_prompts * mix.prompt_tokens;
  load.context_tokens = load.decode_context_tokens + mix.num_prompts * mix.prompt_context_tokens;
  load.chunks.assign(static_cast<std::size_t>(mix.num_prompts),
                     {mix.prompt_tokens, mix.prompt_context_tokens});
  StepTimes times;
  serving::Ticks whole = 0;
  for (std::size_t k = 0; k < cost.num_stages(); ++k) {
    const serving::Ticks stage = cost.stage(load, k);
    times.stage_s.push_back(serving::to_seconds(stage));
    whole += stage + (k + 1 < cost.num_stages() ? cost.hop(load, k) : 0);
  }
  times.whole_s = serving::to_seconds(whole);
  return times;
}

double step_s(const serving::StepCost& cost, const StepMix& mix) {
  return step_times(cost, mix).whole_s;
}

}  // namespace tessera::solver
