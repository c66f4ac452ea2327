#include "tessera/serving/stability.h"

#include <gtest/gtest.h>

#include "lindley.h"

namespace tessera::serving::stability_test {
namespace {

using queues::exponential;
using queues::lindley;
using queues::mm1;
using queues::no_queue;

/// Of 100 runs with seeds of their own, how many are called unstable.
template <class Make>
int num_unstable(Make make) {
  int unstable = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Log log = make(seed);
    unstable += !stability_of(log.requests, log.end, false).stable;
  }
  return unstable;
}

// The rule errs in 1 % of runs at most: more than 5 of 100 would happen once in 2,000.
constexpr int kMostFalse = 5;

TEST(Stability, OfLoadsBelowOneIsHardlyEverDoubted) {
  EXPECT_LE(num_unstable([](auto seed) { return mm1(.8, 20000, seed); }), kMostFalse);
  EXPECT_LE(num_unstable([](auto seed) { return mm1(.95, 20000, seed); }), kMostFalse);
  EXPECT_LE(num_unstable([](auto seed) { return mm1(.8, 200, seed); }), kMostFalse);
  EXPECT_LE(num_unstable([](auto seed) { return mm1(.95, 200, seed); }), kMostFalse);
  EXPECT_LE(num_unstable([](auto seed) { return mm1(1, 20000, seed); }), kMostFalse);
}

TEST(Stability, OfLoadsAboveOneIsDenied) {
  // The growth over n requests is .05 n / 1.05 with a standard deviation of sqrt(2.05 n / 1.05):
  // t is 4.8 on average, against 3.17; of a load of 1.3 over 2,000 it is 7.8.
  EXPECT_GE(num_unstable([](auto seed) { return mm1(1.05, 20000, seed); }), 80);
  EXPECT_GE(num_unstable([](auto seed) { return mm1(1.3, 2000, seed); }), 98);
}

TEST(Stability, SaysWhatRateItWouldSustain) {
  // 10,000 services of an overloaded M/M/1 take 10,000 +- 100 s; half the phase has 3,850 of them,
  // so that four standard deviations are 6.5 %.
  const Log log = mm1(1.3, 10000, 3);
  const Stability stability = stability_of(log.requests, log.end, false);
  ASSERT_FALSE(stability.stable);
  EXPECT_NEAR(*stability.sustainable_request_per_s, 1, .065);
  EXPECT_NEAR(*stability.offered_request_per_s, 1.3, 1.3 * .04);
}

TEST(Stability, AnswersThatAllComeAfterTheLastRequestGiveARateToo) {
  // 100 come within .1 s to a server of 1 s each, which has answered none of them by then.
  const Log log = lindley(
      100, [] { return .001; }, [] { return 1.0; });
  const Stability stability = stability_of(log.requests, log.end, false);
  ASSERT_FALSE(stability.stable);
  EXPECT_NEAR(*stability.sustainable_request_per_s, 1, .01);
}

TEST(Stability, ThatASystemFillsUpIsNoOverload) {
  // Ten requests a second of 8 s each, 300 of them: 80 are under way at the end.
  EXPECT_LE(
      num_unstable([](auto seed) { return no_queue(10, 300, seed, [](Rng&) { return 8.0; }); }),
      kMostFalse);
  EXPECT_LE(num_unstable([](auto seed) {
              return no_queue(10, 2000, seed, [](Rng& rng) { return 8 * exponential(rng); });
            }),
            kMostFalse);
}

TEST(Stability, ServersThatAdmitAllAndSlowDownAreOverloadedToo) {
  // Nobody waits for a first step, but answers come at 7 a second where 10 are asked for.
  Log log = mm1(1.43, 3000, 5);
  for (RequestRecord& request : log.requests) request.first_scheduled = request.arrival;
  const Stability stability = stability_of(log.requests, log.end, false);
  EXPECT_FALSE(stability.stable);
  EXPECT_NE(stability.reason.find("in the system"), std::string::npos) << stability.reason;
}

TEST(Stability, OfConstantGapsAndServicesIsExact) {
  const auto constant = [](double gap_s) {
    return lindley(
        1000, [=] { return gap_s; }, [] { return 1.0; });
  };
  const Log below = constant(1.001), above = constant(.98);
  EXPECT_TRUE(stability_of(below.requests, below.end, false).stable);
  EXPECT_FALSE(stability_of(above.requests, above.end, false).stable);
}

TEST(Stability, FiniteBatchesAreStable) {
  Log log = lindley(
      100, [] { return 0.0; }, [] { return 1.0; });
  EXPECT_TRUE(stability_of(log.requests, log.end, false).stable);
  EXPECT_FALSE(stability_of(log.requests, log.end, false).offered_request_per_s);
  log = mm1(1.5, 1000, 1);
  EXPECT_TRUE(stability_of(log.requests, log.end, true).stable);
  EXPECT_TRUE(stability_of({}, 0, false).stable);
}

TEST(Stability, OfARunThatWasCutOffIsSeen) {
  // A scheduler that serves nobody, stopped at 500 s of 1,000.
  Log log;
  for (int i = 0; i < 1000; ++i) {
    RequestRecord request;
    if (i < 500) request.arrival = i * kTicksPerSecond;
    log.requests.push_back(request);
  }
  const Stability stability = stability_of(log.requests, 500 * kTicksPerSecond, false);
  EXPECT_FALSE(stability.stable);
  EXPECT_EQ(*stability.sustainable_request_per_s, 0);
}

}  // namespace
}  // namespace tessera::serving::stability_test
