#include "tessera/profile/timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tessera::profile::timing_cases {
namespace {

/// A clock that what is timed moves on.
struct Machine {
  double now_s = 0;
  std::vector<double> runs_s;  ///< of each run; the last one goes on
  std::size_t runs = 0;

  void run() { now_s += runs_s[std::min(runs++, runs_s.size() - 1)]; }
  Timing time(const TimingOptions& options) {
    return time_of([this] { run(); }, options, [this] { return now_s; });
  }
};

TEST(Timing, IsTheMiddleOfTheRepeatsWithoutTheFirstRuns) {
  Machine machine{.runs_s = {9, 9, 1, 1.02, 1.01, 1.03, 1.04}};
  const Timing timing = machine.time({.warm_ups = 2, .repeats = 5, .least_s = 0});
  EXPECT_EQ(machine.runs, 7u);
  EXPECT_DOUBLE_EQ(timing.median_s, 1.02);
  EXPECT_NEAR(timing.low_s, 1.01, 1e-12);
  EXPECT_NEAR(timing.high_s, 1.03, 1e-12);
  EXPECT_NEAR(timing.spread_ratio(), 0.02 / 1.02, 1e-12);
  EXPECT_FALSE(timing.noisy);
}

TEST(Timing, MarksWhatSpreads) {
  Machine machine{.runs_s = {1, 1, 1.3, 1, 1.4, 1.1}};
  const TimingOptions options{.warm_ups = 1, .repeats = 5, .least_s = 0, .noisy_ratio = 0.1};
  const Timing timing = machine.time(options);
  EXPECT_TRUE(timing.noisy);
  EXPECT_NEAR(timing.spread_ratio(), 0.3 / 1.1, 1e-12);
  Machine same{.runs_s = {1, 1, 1.3, 1, 1.4, 1.1}};
  EXPECT_FALSE(same.time({.warm_ups = 1, .repeats = 5, .least_s = 0, .noisy_ratio = 0.3}).noisy);
}

TEST(Timing, OneOutlierIsNoNoise) {
  Machine machine{.runs_s = {1, 1, 5, 1, 1, 1}};
  const Timing timing = machine.time({.warm_ups = 1, .repeats = 5, .least_s = 0});
  EXPECT_DOUBLE_EQ(timing.median_s, 1);
  EXPECT_FALSE(timing.noisy);
}

TEST(Timing, FillsARepeatWithShortRuns) {
  Machine machine{.runs_s = {0.001}};
  const Timing timing = machine.time({.warm_ups = 1, .repeats = 3, .least_s = 0.0095});
  EXPECT_EQ(machine.runs, 1u + 3 * 10);
  EXPECT_NEAR(timing.median_s, 0.001, 1e-12);
}

TEST(Timing, AClockThatStandsStillEndsAllTheSame) {
  Machine machine{.runs_s = {0}};
  const Timing timing = machine.time({.warm_ups = 1, .repeats = 3, .least_s = 1});
  EXPECT_EQ(timing.median_s, 0);
  EXPECT_EQ(machine.runs, 4u);
}

}  // namespace
}  // namespace tessera::profile::timing_cases
