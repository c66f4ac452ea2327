#include "tessera/serving/state_samples.h"

#include <algorithm>
#include <utility>

namespace tessera::serving {
namespace {

constexpr std::size_t kMostSamples = 1024;

}  // namespace

StateSamples::StateSamples(const Traffic& traffic) {
  if (traffic.requests.empty()) return;
  const auto samples = static_cast<Ticks>(kMostSamples / 2);
  every_ = std::max(every_, traffic.requests.back().arrival / samples);
}

void StateSamples::add(StateSample state) {
  state.time = next_;
  state.output_tokens -= std::exchange(output_, state.output_tokens);
  if (samples_.size() >= kMostSamples) {
    std::vector<StateSample> kept;
    std::int64_t tokens = 0;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      tokens += samples_[i].output_tokens;
      if (i % 2 == 0) continue;
      kept.push_back(samples_[i]);
      kept.back().output_tokens = std::exchange(tokens, 0);
    }
    samples_ = std::move(kept);
    every_ *= 2;
  }
  samples_.push_back(state);
  next_ += every_;
}

std::vector<StateSample> StateSamples::take(Ticks end) {
  std::erase_if(samples_, [&](const StateSample& s) { return s.time > end; });
  return std::move(samples_);
}

}  // namespace tessera::serving
