// When a device was busy, within a window and from the start.

#include "tessera/serving/device_clock.h"

#include <gtest/gtest.h>

#include <vector>

#include "tessera/core/rng.h"

namespace tessera::serving::device_clock_test {
namespace {

constexpr Ticks kSecond = kTicksPerSecond;

TEST(DeviceClock, CountsBusyTimeWithinItsWindow) {
  DeviceClock clock(120 * kSecond);
  EXPECT_EQ(clock.busy_before(kSecond), 0);
  clock.use(10 * kSecond, 14 * kSecond, 10 * kSecond);
  clock.use(14 * kSecond, 16 * kSecond, 14 * kSecond);
  clock.use(100 * kSecond, 140 * kSecond, 100 * kSecond);
  EXPECT_EQ(clock.free(), 140 * kSecond);
  EXPECT_EQ(clock.busy_before(12 * kSecond), 2 * kSecond);
  EXPECT_EQ(clock.busy_before(120 * kSecond), 26 * kSecond);
  EXPECT_EQ(clock.busy_before(132 * kSecond), 36 * kSecond);  // the first two seconds are out
  EXPECT_EQ(clock.busy_before(240 * kSecond), 20 * kSecond);
  EXPECT_EQ(clock.busy_until(110 * kSecond), 16 * kSecond);
  EXPECT_EQ(clock.busy_until(500 * kSecond), 46 * kSecond);
}

// What takes no time changes when it is free, and nothing else.
TEST(DeviceClock, TakesStepsWithoutTime) {
  DeviceClock clock(kSecond);
  clock.use(3 * kSecond, 3 * kSecond, 0);
  EXPECT_EQ(clock.free(), 3 * kSecond);
  EXPECT_EQ(clock.busy_until(9 * kSecond), 0);
}

// What is forgotten lies before every window that anybody asks of.
TEST(DeviceClock, IsTheSumOverAllItsSteps) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Rng rng(seed);
    const Ticks window = kSecond * rng.integer(1, 20);
    DeviceClock clock(window);
    std::vector<std::pair<Ticks, Ticks>> steps;
    Ticks at = 0, busy = 0;
    for (int i = 0; i < 300; ++i) {
      const Ticks now = at + kSecond / 10 * rng.integer(0, 20);
      const Ticks start = now + (rng.integer(0, 3) == 0 ? kSecond * rng.integer(0, 3) : 0);
      const Ticks end = start + kSecond / 10 * rng.integer(0, 30);
      clock.use(start, end, now);
      steps.emplace_back(start, end);
      busy += end - start;
      at = end;
      const Ticks asked = now / kSecond * kSecond;
      Ticks expected = 0;
      for (const auto& [from, to] : steps) {
        expected += std::max<Ticks>(0, std::min(to, asked) - std::max(from, asked - window));
      }
      ASSERT_EQ(clock.busy_before(asked), expected) << "seed " << seed << ", step " << i;
    }
    EXPECT_EQ(clock.busy_until(at), busy);
  }
}

}  // namespace
}  // namespace tessera::serving::device_clock_test
