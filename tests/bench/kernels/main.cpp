// tessera_kernels_bench [--quick] [moments] [indicator] [gemv] [decoder] [int8]; README.md says
// what to compare.
#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "compare.h"
#include "tessera/kernels/info.h"

namespace tessera::kernels::bench {
namespace {

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const double high = values[std::min(low + 1, values.size() - 1)];
  return values[low] + (at - static_cast<double>(low)) * (high - values[low]);
}

double seconds_of(const std::function<void()>& run, int threads) {
  const auto now = [&] {
    timespec time{};
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  run();
  return now() - start;
}

void print_machine() {
  std::string line, cpu = "unknown CPU";
  std::ifstream info("/proc/cpuinfo");
  while (std::getline(info, line)) {
    if (line.rfind("model name", 0) == 0) cpu = line.substr(line.find(':') + 2);
  }
  double load = 0;
  if (getloadavg(&load, 1) != 1) load = -1;
  std::printf("%s, load %.1f\n", cpu.c_str(), load);
}

}  // namespace

void compare(const std::string& title, int threads, int rounds,
             const std::vector<Contender>& contenders) {
  std::vector<std::vector<double>> seconds(contenders.size()), faster(contenders.size());
  for (const Contender& c : contenders) c.run();
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      seconds[i].push_back(seconds_of(contenders[i].run, threads));
      faster[i].push_back(seconds[0].back() / seconds[i].back());
    }
  }
  std::printf("\n%s, %d thread%s\n", title.c_str(), threads,
              threads == 1 ? " (CPU time)" : "s (time on the wall)");
  std::printf("  %-34s %10s %21s %8s %9s %7s\n", "", "median ms", "quartiles", "GB/s", "GFLOP/s",
              "faster");
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const double median = quantile(seconds[i], 0.5);
    std::printf("  %-34s %10.3f %10.3f %10.3f", contenders[i].name.c_str(), median * 1e3,
                quantile(seconds[i], 0.25) * 1e3, quantile(seconds[i], 0.75) * 1e3);
    const auto rate = [&](double amount, int width, int digits) {
      if (amount > 0) {
        std::printf(" %*.*f", width, digits, amount / median / 1e9);
      } else {
        std::printf(" %*s", width, "");
      }
    };
    rate(contenders[i].bytes, 8, 2);
    rate(contenders[i].operations, 9, 1);
    std::printf(" %6.2fx\n", quantile(faster[i], 0.5));
  }
}

void skip(const std::string& name, const std::string& why) {
  std::printf("  SKIPPED %s: %s\n", name.c_str(), why.c_str());
}

void check(bool right, const std::string& what) {
  if (right) return;
  std::fprintf(stderr, "wrong result: %s\n", what.c_str());
  std::exit(1);
}

void* find_function(const std::vector<const char*>& libraries, const char* name) {
  for (const char* library : libraries) {
    void* handle = library == nullptr ? nullptr : dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void* function = handle == nullptr ? nullptr : dlsym(handle, name);
    if (function != nullptr) return function;
  }
  return nullptr;
}

}  // namespace tessera::kernels::bench

int main(int argc, char** argv) {
  using namespace tessera::kernels;
  bool quick = false, all = true;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      quick = true;
    } else {
      all = false;
    }
  }
  const auto wanted = [&](const char* name) {
    for (int i = 1; i < argc; ++i) {
      if (std::strcmp(argv[i], name) == 0) return true;
    }
    return all;
  };
  bench::print_machine();
  for (const KernelInfo& k : cpu_kernels()) {
    if (k.chosen) std::printf("  %s: %s\n", k.name, k.isa);
  }
  if (wanted("moments")) bench::bench_moments(quick);
  if (wanted("indicator")) bench::bench_indicator(quick);
  if (wanted("gemv")) bench::bench_gemv(quick);
  if (wanted("decoder")) bench::bench_decoder(quick);
  if (wanted("int8")) bench::bench_int8(quick);
  return 0;
}
