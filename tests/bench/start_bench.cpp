// From exec to the first line that a script prints: the median of 20 starts.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "process.h"

namespace tessera {
namespace {

double first_line_s(const std::string& code) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  double seconds = -1;
  test::ProcessSetup setup;
  setup.wait_for = "here";
  setup.then = [&](pid_t) {
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  };
  const test::Process process = test::run_process({TESSERA_PROGRAM, "-e", code}, setup);
  return process.status == 0 && process.out == "here\n" ? seconds : -1;
}

double children_cpu_s() {
  rusage use{};
  getrusage(RUSAGE_CHILDREN, &use);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

void start(benchmark::State& state, const std::string& code) {
  constexpr int kStarts = 20;
  for (auto _ : state) {
    const double cpu_before = children_cpu_s();
    std::vector<double> seconds;
    for (int i = 0; i < kStarts; ++i) seconds.push_back(first_line_s(code));
    std::sort(seconds.begin(), seconds.end());
    if (seconds.front() < 0) {
      state.SkipWithError("the program printed something else");
      break;
    }
    state.SetIterationTime((seconds[kStarts / 2 - 1] + seconds[kStarts / 2]) / 2);
    // What the whole process costs; on a busy machine it says more than the time on the wall.
    state.counters["cpu_ms"] = (children_cpu_s() - cpu_before) / kStarts * 1e3;
    state.counters["slowest_ms"] = seconds.back() * 1e3;
  }
}

void BM_StartBare(benchmark::State& state) { start(state, "print 'here'"); }
BENCHMARK(BM_StartBare)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

void BM_StartWithLibrary(benchmark::State& state) {
  start(state, "local ts = require 'tessera' print(ts and 'here')");
}
BENCHMARK(BM_StartWithLibrary)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tessera
