// Which replica a request goes to.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tessera/serving/router.h"

namespace tessera::serving::routers_test {
namespace {

/// How many of so many requests each replica gets, all of which stay.
std::vector<std::int64_t> sent(const std::string& name, const std::vector<double>& shares,
                               int num_requests) {
  RouterOptions options;
  options.name = name;
  const auto router = make_router(options);
  std::vector<ReplicaLoad> loads(shares.size());
  for (std::size_t i = 0; i < shares.size(); ++i) loads[i].share = shares[i];
  RoutedRequest request;
  request.prompt_tokens = 100;
  request.cached_tokens = [](std::size_t) { return std::int64_t{0}; };
  std::vector<std::int64_t> counts(shares.size());
  for (int k = 0; k < num_requests; ++k) {
    const std::size_t chosen = router->choose(loads, request);
    ++loads.at(chosen).num_waiting;
    loads[chosen].pending_tokens += request.prompt_tokens;
    ++counts[chosen];
  }
  return counts;
}

using Counts = std::vector<std::int64_t>;

TEST(Routers, SendEachReplicaItsShare) {
  for (const char* name : {"round_robin", "least_requests", "least_tokens"}) {
    EXPECT_EQ(sent(name, {1.5, 0.5}, 16), (Counts{12, 4})) << name;
    EXPECT_EQ(sent(name, {2, 11, 3}, 32), (Counts{4, 22, 6})) << name;
    EXPECT_EQ(sent(name, {2, 11, 3}, 1), (Counts{0, 1, 0})) << name;
    EXPECT_EQ(sent(name, {1, 1, 1}, 7), (Counts{3, 2, 2})) << name;
  }
}

TEST(Routers, DrawByShares) {
  const int num_requests = 4000;
  const Counts drawn = sent("random", {3, 0.5, 1.5}, num_requests);
  const double shares[] = {0.6, 0.1, 0.3};
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const double mean = num_requests * shares[i];
    const double deviation = std::sqrt(mean * (1 - shares[i]));
    EXPECT_NEAR(static_cast<double>(drawn[i]), mean, 4 * deviation);
  }
}

TEST(Routers, PreferTheLessLoadedOfItsShare) {
  const Counts drawn = sent("power_of_two", {3, 1}, 400);  // always draws both
  EXPECT_EQ(drawn, (Counts{300, 100}));
}

}  // namespace
}  // namespace tessera::serving::routers_test
