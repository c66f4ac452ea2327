// Searching for the largest rate within an SLO.

#include "tessera/serving/max_rate.h"

#include <gtest/gtest.h>

#include "tessera/core/error.h"

namespace tessera::serving::max_rate_test {
namespace {

/// One request at a time, 0.1 s for each of its tokens.
Deployment one_server() {
  auto cost = std::make_shared<LinearStepCost>();
  cost->base = kTicksPerSecond / 10;
  Replica replica;
  replica.name = "server";
  replica.engine.max_num_seqs = 1;
  replica.engine.enable_prefix_caching = false;
  replica.kv_blocks = 100;
  replica.cost = cost;
  Deployment deployment;
  deployment.replicas = {replica};
  return deployment;
}

/// Evenly spaced, ten a second; of every four the last has so many tokens.
Traffic even_traffic(std::int64_t count, std::int64_t output_tokens) {
  Traffic traffic;
  traffic.rate_per_s = 10;
  for (std::int64_t i = 0; i < count; ++i) {
    Request r;
    r.arrival = i * kTicksPerSecond / 10;
    r.output_tokens = i % 4 == 3 ? output_tokens : 1;
    traffic.requests.push_back(r);
  }
  return traffic;
}

MaxRateOptions options_of(Slo slo) {
  MaxRateOptions options;
  options.summary.slos = {std::move(slo)};
  return options;
}

TEST(MaxRate, IsThatOfTheServer) {
  Slo slo;
  slo.ttft_s.of_all = {{Statistic::p99, 0.5}};
  const MaxRate found = max_rate(one_server(), even_traffic(1000, 1), options_of(slo));
  EXPECT_NEAR(found.rate_per_s, 10, 0.3);
  ASSERT_TRUE(found.fails_at_per_s);
  EXPECT_GT(*found.fails_at_per_s, found.rate_per_s);
  EXPECT_LE(*found.fails_at_per_s - found.rate_per_s, 0.02 * *found.fails_at_per_s);
  EXPECT_NE(found.limited_by, "");
  for (const RatePoint& point : found.points) EXPECT_EQ(point.holds, point.broken.empty());
}

TEST(MaxRate, FindsItsWayBackFromAGuessThatIsFarOff) {
  Slo slo;
  slo.ttft_s.of_all = {{Statistic::p99, 0.5}};
  MaxRateOptions options = options_of(slo);
  for (const double guess : {1e12, 1e-8, 1e-2, 1.0, 1e3}) {
    options.guess_per_s = guess;
    const MaxRate found = max_rate(one_server(), even_traffic(1000, 1), options);
    EXPECT_NEAR(found.rate_per_s, 10, 0.3) << guess;
    EXPECT_TRUE(found.fails_at_per_s) << guess;
  }
}

// A quarter of the answers takes 2 s: no median, and no limit on each request.
TEST(MaxRate, DoesNotTakeAPercentileForALimitOnEach) {
  Slo slo;
  slo.ttft_s.each = 30;
  slo.e2e_s.of_all = {{Statistic::p50, 0.5}};
  EXPECT_GT(max_rate(one_server(), even_traffic(400, 20), options_of(slo)).rate_per_s, 0);
}

TEST(MaxRate, RefusesClassesThatAreNotThere) {
  Slo slo;
  slo.ttft_s.each = 1;
  MaxRateOptions options = options_of(slo);
  options.summary.slos.push_back(slo);
  const Traffic traffic = even_traffic(40, 1);
  options.summary.slo_classes.assign(traffic.requests.size(), 7);
  EXPECT_THROW(max_rate(one_server(), traffic, options), Error);
}

}  // namespace
}  // namespace tessera::serving::max_rate_test
