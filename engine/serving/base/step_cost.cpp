#include "tessera/serving/step_cost.h"

namespace tessera::serving {

// Ends of stages are rounded, so that their sum is the whole to the tick.
RequestStepCost RequestStepCost::of(Ticks prompt, Ticks token, Ticks further,
                                    const std::vector<std::int64_t>& layers) {
  RequestStepCost cost;
  WideTicks all = 0, before = 0;
  for (const std::int64_t count : layers) all += count;
  const auto part = [&](Ticks whole, std::int64_t count) {
    return static_cast<Ticks>(whole * (before + count) / all - whole * before / all);
  };
  for (const std::int64_t count : layers) {
    cost.prompt.push_back(part(prompt, count));
    cost.token.push_back(part(token, count));
    cost.further.push_back(part(further, count));
    before += count;
  }
  return cost;
}

}  // namespace tessera::serving
