#include "tessera/profile/rates.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "tessera/core/rng.h"
#include "tessera/core/units.h"
#include "tessera/linear/linear.h"

namespace tessera::profile {
namespace {

constexpr double kLeastSumBytes = 64 * kMiB, kMostSumBytes = 512 * kMiB;
// Many short ones: what else runs on the machine does not get into all of them.
constexpr TimingOptions kRepeats{.repeats = 40, .least_s = 0};
constexpr std::int64_t kRows = 64, kSide = 512;  // of a product: enough for any tile

/// Seconds of `run(0)` on one core while each other core does the same, `run(i)`: of the better
/// repeats, since rates of a sheet are what a device can do.
double seconds_on_all(const Cpu& cpu, const Clock& clock,
                      const std::function<void(std::int64_t)>& run) {
  const Pinned pinned(cpu, 1);
  OtherCores others(cpu, 1, cpu.num_cores() - 1, [&](std::int64_t i) { run(i + 1); });
  const double seconds = time_of([&] { run(0); }, kRepeats, clock).low_s;
  others.stop();
  return seconds;
}

double sum_bytes_per_s(const Cpu& cpu, const Clock& clock) {
  const double bytes = std::clamp(2 * cpu.cache_bytes, kLeastSumBytes, kMostSumBytes);
  const auto count = static_cast<std::size_t>(bytes / sizeof(std::uint64_t));
  const auto cores = static_cast<std::size_t>(cpu.num_cores());
  const std::vector<std::vector<std::uint64_t>> numbers(cores,
                                                        std::vector<std::uint64_t>(count, 1));
  std::vector<std::uint64_t> sums(cores);
  const double seconds = seconds_on_all(cpu, clock, [&](std::int64_t core) {
    const auto& own = numbers[static_cast<std::size_t>(core)];
    sums[static_cast<std::size_t>(core)] +=
        std::accumulate(own.begin(), own.end(), std::uint64_t{0});
  });
  return static_cast<double>(count * sizeof(std::uint64_t)) / seconds;
}

double product_flop_per_s(const Cpu& cpu, const linear::LinearForm& form, const Clock& clock) {
  Rng rng(1);
  const auto random = [&](std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = static_cast<float>(rng.uniform() - 0.5);
    return values;
  };
  const auto weights = random(kSide * kSide), x = random(kRows * kSide);
  const auto matrix = linear::make_linear(weights, kSide, kSide, form, nullptr, 1);
  std::vector<std::vector<float>> outs(static_cast<std::size_t>(cpu.num_cores()),
                                       std::vector<float>(x.size()));
  const double seconds = seconds_on_all(cpu, clock, [&](std::int64_t core) {
    float* out = outs[static_cast<std::size_t>(core)].data();
    matrix->apply(x.data(), kSide, kRows, out, kSide, 1);
  });
  return 2.0 * static_cast<double>(kRows * kSide * kSide) / seconds;
}

}  // namespace

Rates measure_rates(const Cpu& cpu, std::int64_t cores, const Clock& clock) {
  const auto share = static_cast<double>(cores);
  const auto product = [&](std::int32_t bitwidth, std::int32_t activation_bitwidth) {
    const linear::LinearForm form{.bitwidth = bitwidth, .activation_bitwidth = activation_bitwidth};
    return share * product_flop_per_s(cpu, form, clock);
  };
  return {share * sum_bytes_per_s(cpu, clock), product(16, 16), product(8, 8), product(4, 8)};
}

}  // namespace tessera::profile
