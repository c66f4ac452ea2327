#include "tessera/profile/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "tessera/core/statistics.h"

namespace tessera::profile {
namespace {

constexpr double kMostRuns = 1e6;  // in a repeat

double seconds_of(const std::function<void()>& run, std::int64_t runs, const Clock& clock) {
  const double start = clock();
  for (std::int64_t i = 0; i < runs; ++i) run();
  return (clock() - start) / static_cast<double>(runs);
}

}  // namespace

double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Timing time_of(const std::function<void()>& run, const TimingOptions& options, const Clock& clock) {
  double once_s = 0;  // of the last run that does not count, which tells how many fill a repeat
  for (std::int64_t i = 0; i < std::max<std::int64_t>(options.warm_ups, 1); ++i)
    once_s = seconds_of(run, 1, clock);
  const double runs =
      once_s > 0 ? std::clamp(std::ceil(options.least_s / once_s), 1.0, kMostRuns) : 1;
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < options.repeats; ++i)
    seconds.push_back(seconds_of(run, static_cast<std::int64_t>(runs), clock));
  std::sort(seconds.begin(), seconds.end());
  Timing timing{quantile(seconds, 0.5), quantile(seconds, 0.25), quantile(seconds, 0.75),
                options.repeats};
  timing.noisy = timing.spread_ratio() > options.noisy_ratio;
  return timing;
}

}  // namespace tessera::profile
