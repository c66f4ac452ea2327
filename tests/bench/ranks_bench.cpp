// A sum over two tensor-parallel ranks, each a process: a decode step of SmolLM2 has 60 of them,
// of 2.3 KB a token.
#include <benchmark/benchmark.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/lm/reducer.h"

namespace tessera {
namespace {

void BM_SumOverRanks(benchmark::State& state) {
  const auto memory = lm::SharedRanks::create(2);
  std::vector<float> values(static_cast<std::size_t>(state.range(0)) / sizeof(float), 1);
  constexpr std::chrono::seconds kDeadline{10};
  const pid_t other = fork();
  const auto reducer = memory->reducer(other == 0 ? 1 : 0, kDeadline);
  if (other == 0) {
    try {
      while (true) {
        std::ranges::fill(values, 2.0f);
        reducer->sum(values);
      }
    } catch (const Error&) {
      _exit(0);
    }
  }
  for (auto _ : state) {
    std::ranges::fill(values, 1.0f);
    reducer->sum(values);
    if (values.back() != 3) state.SkipWithError("another sum");
  }
  reducer->abort();
  waitpid(other, nullptr, 0);
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_SumOverRanks)
    ->Arg(2304)
    ->Arg(18432)
    ->Arg(1 << 20)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tessera
