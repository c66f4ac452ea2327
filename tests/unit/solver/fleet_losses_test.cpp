// Reserves of several nodes where a model has several classes of requests: against enumeration of
// placements, each with every set of nodes lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "tessera/solver/fleet/check.h"
#include "tessera/solver/fleet/master.h"

namespace tessera::solver {
namespace {

constexpr std::size_t kNodes = 6;  ///< three of 2 A, then three of 1 B
using OnNodes = std::array<int, kNodes>;

FleetInstance random_fleet(std::mt19937_64& random, std::int64_t reserve_nodes) {
  const auto rate = [&] { return std::uniform_real_distribution<double>(0.5, 4)(random); };
  FleetInstance fleet;
  fleet.device_types = {{"A", 1}, {"B", 1 + rate()}};
  fleet.node_classes = {{"2xA", 3, {{"A", 2}}, 2}, {"1xB", 3, {{"B", 1}}, 2}};
  fleet.models = {{"m", {0.5 * rate(), 0.5 * rate()}}};
  fleet.columns = {{0, {{"A", 1}}, {rate(), rate()}}, {0, {{"B", 1}}, {rate(), rate()}}};
  fleet.reserve_nodes = reserve_nodes;
  return fleet;
}

/// The largest multiple of two classes' demand, by the dual: a price of each class at which the
/// replicas could earn least of what the demand is worth.
double multiple_of(const FleetInstance& fleet, int of_a, int of_b) {
  const std::array<double, 2> copies = {double(of_a), double(of_b)};
  const auto worth = [&](double price) {
    double earned = 0;
    for (std::size_t c = 0; c < 2; ++c) {
      const auto& rate = fleet.columns[c].rate;
      earned += copies[c] * std::max(price * rate[0], (1 - price) * rate[1]);
    }
    const auto& demand = fleet.models[0].demand;
    return earned / (price * demand[0] + (1 - price) * demand[1]);
  };
  double least = std::min(worth(0), worth(1));
  for (const Column& column : fleet.columns) {
    least = std::min(least, worth(column.rate[1] / (column.rate[0] + column.rate[1])));
  }
  return least;
}

/// With the worst so many nodes lost, of all sets of them.
double multiple_of(const FleetInstance& fleet, const OnNodes& on) {
  double least = std::numeric_limits<double>::infinity();
  for (unsigned lost = 0; lost < (1U << kNodes); ++lost) {
    if (__builtin_popcount(lost) != fleet.reserve_nodes) continue;
    int of_a = 0, of_b = 0;
    for (std::size_t n = 0; n < kNodes; ++n) {
      if ((lost >> n & 1U) == 0) (n < 3 ? of_a : of_b) += on[n];
    }
    least = std::min(least, multiple_of(fleet, of_a, of_b));
  }
  return least;
}

template <class Visit>
void for_each_placement(const Visit& visit) {
  for (int i = 0; i < 27 * 8; ++i) {
    OnNodes on{};
    int rest = i;
    for (std::size_t n = 0; n < kNodes; ++n) {
      const int sizes = n < 3 ? 3 : 2;
      on[n] = rest % sizes;
      rest /= sizes;
    }
    visit(on);
  }
}

double cheapest_by_enumeration(const FleetInstance& fleet) {
  double cheapest = std::numeric_limits<double>::infinity();
  for_each_placement([&](const OnNodes& on) {
    double usd = 0;
    for (std::size_t n = 0; n < kNodes; ++n) usd += on[n] * fleet.device_types[n / 3].usd_per_h;
    if (usd < cheapest && multiple_of(fleet, on) >= 1 - 1e-9) cheapest = usd;
  });
  return cheapest;
}

FleetPlacement placement_of(const OnNodes& on) {
  FleetPlacement placement;
  for (std::size_t n = 0; n < kNodes; ++n) {
    for (int i = 0; i < on[n]; ++i) placement.push_back({n / 3, {std::int64_t(n)}});
  }
  return placement;
}

class FleetLosses : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(FleetLosses, AreServedAtTheLeastCost) {
  int feasible = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const FleetInstance fleet = random_fleet(random, GetParam());
    const double cheapest = cheapest_by_enumeration(fleet);
    FleetOptions options;
    options.gap = 0;
    const FleetAnswer answer = FleetMaster(fleet).solve(options);
    if (std::isinf(cheapest)) {
      EXPECT_EQ(answer.status, FleetStatus::infeasible);
      continue;
    }
    ++feasible;
    ASSERT_EQ(answer.status, FleetStatus::optimal);
    EXPECT_NEAR(*answer.objective, cheapest, 1e-6);
    EXPECT_NEAR(*answer.bound, cheapest, 1e-4 * cheapest);
    EXPECT_TRUE(check_fleet(fleet, answer.placement).violations.empty());
  }
  EXPECT_GT(feasible, 5);
}

TEST_P(FleetLosses, AreAllCheckedOnEachPlacement) {
  std::mt19937_64 random(7);
  const FleetInstance fleet = random_fleet(random, GetParam());
  for_each_placement([&](const OnNodes& on) {
    const FleetCheck check = check_fleet(fleet, placement_of(on));
    EXPECT_NEAR(check.models[0].reserve_scale.value_or(0), multiple_of(fleet, on), 1e-7);
  });
}

INSTANTIATE_TEST_SUITE_P(Nodes, FleetLosses, ::testing::Values(1, 2, 3));

/// Of two kinds, each good at one of two classes: node n of `nodes` has n of one and nodes - 1 - n
/// of the other, so that none is worse to lose than another one.
double mixed_nodes(std::int64_t nodes, std::int64_t reserve_nodes) {
  FleetInstance fleet;
  fleet.device_types = {{"A", 1}};
  fleet.node_classes = {{"64xA", nodes, {{"A", 64}}, 64}};
  fleet.models = {{"m", {1, 1}}};
  fleet.columns = {{0, {{"A", 1}}, {1, 2}}, {0, {{"A", 1}}, {2, 1}}};
  fleet.reserve_nodes = reserve_nodes;
  FleetPlacement placement;
  for (std::int64_t n = 0; n < nodes; ++n) {
    for (std::int64_t i = 0; i < n; ++i) placement.push_back({0, {n}});
    for (std::int64_t i = 0; i < nodes - 1 - n; ++i) placement.push_back({1, {n}});
  }
  return *check_fleet(fleet, placement).models[0].reserve_scale;
}

// 15 and 51 are left at the worst: a = 27 of the 51 serve the first class, 2 a = 2 x 15 + (51 - a).
TEST(FleetLossesOfManyNodes, AreTriedOneByOne) { EXPECT_NEAR(mixed_nodes(12, 6), 54, 1e-6); }

// Too many ways to try: each kind loses the eight nodes that have most of it, 156 of 276, though no
// eight nodes have both (325 would be left of the worst).
TEST(FleetLossesOfManyNodes, AreNotTakenTooLightlyWhereTheyAreTooMany) {
  EXPECT_NEAR(mixed_nodes(24, 8), 2 * (276 - 156), 1e-6);
}

}  // namespace
}  // namespace tessera::solver
