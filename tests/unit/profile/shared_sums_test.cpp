#include <gtest/gtest.h>

#include "expect_error.h"
#include "tessera/profile/rates.h"

namespace tessera::profile::shared_sums_cases {
namespace {

TEST(SharedSums, TakeLongerForMore) {
  const Cpu cpu = this_cpu();
  if (cpu.num_cores() < 2) GTEST_SKIP() << "one core";
  const auto sums = measure_sums(cpu, 1, 2, {64, 1 << 22}, {.repeats = 3, .least_s = 0});
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(sums[1].bytes, 1 << 22);
  EXPECT_GT(sums[0].timing.median_s, 0);
  EXPECT_GT(sums[1].timing.median_s, sums[0].timing.median_s);
}

TEST(SharedSums, NeedASharePerRank) {
  const Cpu cpu = this_cpu();
  const auto many = static_cast<std::int32_t>(cpu.num_cores() + 1);
  for (const std::int32_t ranks : {1, many}) {
    test::expect_error(ErrorCode::out_of_range, {"ranks"},
                       [&] { measure_sums(cpu, 1, ranks, {64}, {}); });
  }
}

}  // namespace
}  // namespace tessera::profile::shared_sums_cases
