// Choosing a token of SmolLM2's vocabulary: a decode step of its 135M parameters takes about 5 ms,
// so a choice of 0.1 ms is 2 % of it.
#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "tessera/core/rng.h"
#include "tessera/lm/sampling.h"

namespace tessera {
namespace {

constexpr std::int64_t kVocabulary = 49152;

/// The r-th most likely token has a probability like r to the -1.4, so the likeliest third of a
/// thousand have 0.9 together: a text that may go on in many ways.
std::vector<float> logits_of_an_open_text() {
  std::vector<float> logits;
  for (std::int64_t rank = 1; rank <= kVocabulary; ++rank)
    logits.push_back(static_cast<float>(-1.4 * std::log(static_cast<double>(rank))));
  Rng rng(7);
  for (std::size_t i = logits.size() - 1; i > 0; --i) {
    const double at = rng.uniform() * static_cast<double>(i + 1);
    std::swap(logits[i], logits[static_cast<std::size_t>(at)]);
  }
  return logits;
}

void BM_Choose(benchmark::State& state, const lm::SamplingOptions& options) {
  const std::vector<float> logits = logits_of_an_open_text();
  lm::Sampler sampler(options, kVocabulary);
  const std::vector<double> chances = sampler.probabilities(logits);
  std::int64_t step = 0;
  for (auto _ : state) {
    const std::int32_t token = sampler.choose(logits, step++);
    if (chances[static_cast<std::size_t>(token)] <= 0) state.SkipWithError("a token left out");
  }
}
BENCHMARK_CAPTURE(BM_Choose, greedy, {.temperature = 0})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_Choose, temperature, {.temperature = 0.8})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_Choose, top_k, {.top_k = 50})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_Choose, top_p, {.top_p = 0.9})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_Choose, top_p_of_top_k, {.top_k = 1000, .top_p = 0.95})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tessera
