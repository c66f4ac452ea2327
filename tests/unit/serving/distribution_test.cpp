#include "tessera/serving/distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/error.h"
#include "tessera/core/rng.h"

namespace tessera::serving::distribution_test {
namespace {

constexpr Ticks kMs = kTicksPerSecond / 1000;

TEST(Distribution, HasNumpysPercentilesAndTheDivisorN) {
  // numpy.percentile([1, 2, 4, 8, 16], (50, 90, 95, 99)) = 4, 12.8, 14.4, 15.68; mean 6.2,
  // std 5.455272678794342
  const Distribution d = distribution_of(std::vector<double>{16, 1, 8, 2, 4});
  EXPECT_EQ(d.n, 5);
  EXPECT_EQ(d.num_batches, 5);
  EXPECT_NEAR(*d.mean, 6.2, 1e-12);
  EXPECT_NEAR(*d.standard_deviation, 5.455272678794342, 1e-12);
  EXPECT_EQ(*d.min, 1);
  EXPECT_EQ(*d.p50, 4);
  EXPECT_NEAR(*d.p90, 12.8, 1e-12);
  EXPECT_NEAR(*d.p95, 14.4, 1e-12);
  EXPECT_NEAR(*d.p99, 15.68, 1e-12);
  EXPECT_EQ(*d.max, 16);
  // t(4) = 2.776; the standard error with divisor n - 1 is sqrt(148.8 / 4 / 5) = 2.7276
  EXPECT_NEAR(*d.mean_high - *d.mean, 2.776 * std::sqrt(148.8 / 20), 1e-9);
  EXPECT_FALSE(d.p99_high);  // five values say nothing above them
}

TEST(Distribution, OfNothingHasNoNumbers) {
  const Distribution d = distribution_of(std::vector<double>{});
  EXPECT_EQ(d.n, 0);
  EXPECT_FALSE(d.mean);
  EXPECT_FALSE(d.p99);
  EXPECT_EQ(distribution_of(std::vector<GapRun>{}).n, 0);
}

TEST(Distribution, OfOneValueHasNoInterval) {
  const Distribution d = distribution_of(std::vector<double>{3});
  EXPECT_EQ(*d.p99, 3);
  EXPECT_EQ(*d.standard_deviation, 0);
  EXPECT_FALSE(d.mean_low);
}

TEST(QuantileRanks, AreTheBinomials) {
  // n = 10, median: P(K <= 1) = 11/1024 = .0107, P(K <= 2) = .0547: ranks 2 and 9.
  EXPECT_EQ(*quantile_ranks(10, .5).low, 2);
  EXPECT_EQ(*quantile_ranks(10, .5).high, 9);
  // Five values: P(K = 0) = 1/32 > .025, so that no value is surely below the median.
  EXPECT_FALSE(quantile_ranks(5, .5).low);
  // p99 of 368 has an upper bound, of 367 none: .99^368 = .0248, .99^367 = .0250046.
  EXPECT_TRUE(quantile_ranks(368, .99).high);
  EXPECT_FALSE(quantile_ranks(367, .99).high);
  // Large n: the normal law, 1.96 sqrt(n q (1 - q)), to a rank or so.
  EXPECT_NEAR(static_cast<double>(*quantile_ranks(1'000'000, .5).low), 500000 - 980, 2);
  EXPECT_NEAR(static_cast<double>(*quantile_ranks(1'000'000, .5).high), 500000 + 981, 2);
}

TEST(WilsonInterval, IsAsPublished) {
  // Newcombe, Statistics in Medicine 17 (1998), table I: 81/263 and 0/20
  EXPECT_NEAR(wilson_interval(81. / 263, 263).low, .2553, 5e-5);
  EXPECT_NEAR(wilson_interval(81. / 263, 263).high, .3662, 5e-5);
  EXPECT_NEAR(wilson_interval(0, 20).low, 0, 1e-12);
  EXPECT_NEAR(wilson_interval(0, 20).high, .1611, 5e-5);
}

TEST(Intervals, CoverTheTruthOfIndependentValues) {
  // Uniform values. 2,000 intervals at 95 %: four standard deviations of the share are .0195. Those
  // of percentiles cover at least 95 %.
  Rng rng(7);
  int mean = 0, p50 = 0, p90 = 0;
  constexpr int kRuns = 2000;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> values(400);
    for (double& value : values) value = rng.uniform();
    const Distribution d = distribution_of(std::move(values));
    mean += *d.mean_low <= .5 && .5 <= *d.mean_high;
    p50 += *d.p50_low <= .5 && .5 <= *d.p50_high;
    p90 += *d.p90_low <= .9 && .9 <= *d.p90_high;
  }
  EXPECT_NEAR(mean / double{kRuns}, .95, .0195);
  EXPECT_GE(p50 / double{kRuns}, .95 - .0195);
  EXPECT_GE(p90 / double{kRuns}, .95 - .0195);
}

TEST(Intervals, CoverTheTruthOfCorrelatedValues) {
  // x' = .8 x + e: the mean of n is (1 + .8) / (1 - .8) = 9 times as uncertain as of independent
  // values. Batches of 500 are long against the correlation, which leaves 1 - 2 * .8 / (500 * .36)
  // = 99 % of the variance: the interval covers 94.9 %; four standard deviations of 400 runs: .044.
  Rng rng(8);
  int mean = 0, p50 = 0;
  constexpr int kRuns = 400;
  double effective = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> values(10000);
    double x = 0;
    for (int warm_up = 0; warm_up < 100; ++warm_up) x = .8 * x + rng.uniform() - .5;
    for (double& value : values) value = x = .8 * x + rng.uniform() - .5;
    const Distribution d = distribution_of(std::move(values));
    mean += *d.mean_low <= 0 && 0 <= *d.mean_high;
    p50 += *d.p50_low <= 0 && 0 <= *d.p50_high;
    effective += d.effective_n / kRuns;
  }
  EXPECT_NEAR(mean / double{kRuns}, .949, .044);
  EXPECT_GE(p50 / double{kRuns}, .949 - .044);
  // n / 9 = 1111 times the mean of 19 / chi-squared(19), which is 19 / 17; its standard deviation
  // over 400 runs is 1242 * .36 / 20 = 22; the 1 % that batches miss is 12.
  EXPECT_NEAR(effective, 1111 * 19 / 17., 4 * 22 + 12);
}

TEST(Gaps, AreCountedByWeight) {
  // 10, 12, 14 ms of two requests, 100 ms of one: 10 10 12 12 14 14 100
  const std::vector<GapRun> gaps = {{10 * kMs, 2 * kMs, 3, 2}, {100 * kMs, 0, 1, 1}};
  const Distribution d = distribution_of(gaps);
  EXPECT_EQ(d.n, 7);
  EXPECT_NEAR(*d.mean, .172 / 7, 1e-15);
  EXPECT_DOUBLE_EQ(*d.p50, .012);
  EXPECT_NEAR(*d.p90, .014 + .4 * .086, 1e-15);  // at 5.4
  EXPECT_DOUBLE_EQ(*d.min, .010);
  EXPECT_DOUBLE_EQ(*d.max, .1);
  EXPECT_EQ(ranked_gaps(gaps, {0, 1, 2, 6}),
            (std::vector<Ticks>{10 * kMs, 10 * kMs, 12 * kMs, 100 * kMs}));
}

TEST(Gaps, EmptyRunsAndFallingOnesAreRead) {
  const std::vector<GapRun> gaps = {{5, 0, 0, 3}, {9, -2, 3, 1}, {7, 0, 2, 0}};
  EXPECT_EQ(distribution_of(gaps).n, 3);
  EXPECT_EQ(ranked_gaps(gaps, {0, 1, 2}), (std::vector<Ticks>{5, 7, 9}));
}

TEST(Gaps, OfTheLongestRunDoNotOverflow) {
  const auto longest = static_cast<Ticks>(kLongestRun_s * 1e12);
  EXPECT_EQ(ranked_gaps({{longest, 0, 1, 1}, {0, 0, 1, 1}}, {0, 1}),
            (std::vector<Ticks>{0, longest}));
  EXPECT_EQ(distribution_of(std::vector<GapRun>{{longest, 0, 1, 1}}).max, kLongestRun_s);
}

TEST(Gaps, BelowZeroAreADefect) {
  EXPECT_THROW(distribution_of(std::vector<GapRun>{{2, -3, 2, 1}}), Error);
}

TEST(Gaps, OfAStepAreOneObservation) {
  // 1,000 steps of 50 requests: 50,000 gaps, 1,000 observations.
  const Distribution d = distribution_of(std::vector<GapRun>(1000, {kMs, 0, 1, 50}));
  EXPECT_EQ(d.n, 50000);
  EXPECT_NEAR(d.effective_n, 1000, 1e-6);
}

}  // namespace
}  // namespace tessera::serving::distribution_test
