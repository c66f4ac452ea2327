#include <gtest/gtest.h>

#include "tessera/profile/rates.h"

namespace tessera::profile::loopback_cases {
namespace {

TEST(Loopback, BringsEverySizeBack) {
  const auto transfers = measure_loopback({1, 4096, 1 << 20}, {.repeats = 3, .least_s = 0});
  ASSERT_EQ(transfers.size(), 3u);
  EXPECT_EQ(transfers[2].bytes, 1 << 20);
  for (const Transfer& transfer : transfers) EXPECT_GT(transfer.timing.median_s, 0);
}

TEST(Loopback, OneWayIsHalfOfARoundTrip) {
  double now_s = 0;
  const auto transfers =
      measure_loopback({64}, {.repeats = 1, .least_s = 0}, [&] { return now_s++; });
  EXPECT_DOUBLE_EQ(transfers.front().timing.median_s, 0.5);
}

}  // namespace
}  // namespace tessera::profile::loopback_cases
