// Parts of the exact planner by themselves: the table of configurations and the fluid's bound.

#include <gtest/gtest.h>

#include <vector>

#include "exact/config_table.h"
#include "exact/fluid_bound.h"
#include "random_instance.h"

namespace tessera::solver::exact::exact_parts_test {
namespace {

using solver::instances::RandomInstance;

ConfigTable table_of(const SearchSpace& space, const ConfigTable::Keeps& keeps) {
  return ConfigTable(
      space, [](const std::uint16_t*) { return true; }, keeps, space.instance().num_bits(),
      1000000);
}

bool keep_all(const ConfigTable::Shape&, const std::uint16_t*, std::size_t, bool, const double*) {
  return true;
}

// The least omega of the configuration on the interval at `start`; infinite where there is none.
double omega_of(const ConfigTable& table, std::size_t cells, const std::uint16_t* counts,
                std::size_t length, std::size_t start) {
  for (const ConfigTable::Shape& shape : table.shapes()) {
    const std::size_t i = table.index_of(shape, start);
    if (shape.length != length || i == shape.starts.size()) continue;
    for (std::size_t c = shape.begin; c < shape.end; ++c) {
      if (std::equal(counts, counts + cells, table.counts(c))) return table.omega(c)[i];
    }
  }
  return kInfinity;
}

TEST(ConfigTable, OfTwoStagesHoldsTheEndsOfTheOneOfMany) {
  int compared = 0, with_classes = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomInstance random(seed, {6, 4, 3, 4});
    Instance in = random.make();
    in.allow_empty_stage = true;
    PlanRequest two, three;
    two.order = {0, 0};
    three.order = {0, 0, 0};
    const SearchSpace short_space(in, two), long_space(in, three);
    const ConfigTable ends = table_of(short_space, keep_all), all = table_of(long_space, keep_all);
    for (const ConfigTable::Shape& shape : all.shapes()) {
      for (std::size_t c = shape.begin; c < shape.end; ++c) {
        for (std::size_t i = 0; i < shape.starts.size(); ++i) {
          const std::size_t start = shape.starts[i];
          if (start != 0 && start + shape.length != in.num_layers()) continue;
          const double omega =
              omega_of(ends, short_space.num_cells(), all.counts(c), shape.length, start);
          ASSERT_NEAR(omega, all.omega(c)[i], 1e-12 * (1 + std::abs(omega)));
          ++compared;
        }
      }
    }
    if (in.num_layers() > 4) {
      EXPECT_LT(ends.num_entries(), all.num_entries());
    }
    if (in.num_classes > 1) ++with_classes;
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(with_classes, 5);
}

// What a filter refuses takes what only it leads to along, and nothing else.
TEST(ConfigTable, KeepsWhatTheFilterKeeps) {
  int kept = 0, dropped = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomInstance random(seed, {7, 4, 3, 4});
    const Instance in = random.make();
    if (in.num_classes > 1) continue;
    const SearchSpace space(in, {});
    // No more than two layers of the first bitwidth: further layers do not mend that.
    const auto few = [](const ConfigTable::Shape&, const std::uint16_t* counts, std::size_t, bool,
                        const double*) { return counts[0] <= 2; };
    const ConfigTable all = table_of(space, keep_all), some = table_of(space, few);
    for (const ConfigTable::Shape& shape : all.shapes()) {
      for (std::size_t c = shape.begin; c < shape.end; ++c) {
        const std::size_t start = shape.starts.front();
        const double omega = omega_of(some, space.num_cells(), all.counts(c), shape.length, start);
        if (all.counts(c)[0] > 2) {
          EXPECT_EQ(omega, kInfinity);
          ++dropped;
        } else {
          EXPECT_EQ(omega, all.omega(c)[0]);
          ++kept;
        }
      }
    }
  }
  EXPECT_GT(kept, 500);
  EXPECT_GT(dropped, 100);
}

TEST(FluidBound, GoesOnAsIfItHadNotStopped) {
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomInstance random(seed, {8, 4, 3, 4});
    const Instance in = random.make();
    const SearchSpace space(in, {});
    for (const Pair& pair : space.pairs()) {
      FluidBound whole(space, pair), parts(space, pair);
      const double first = whole.bound();
      whole.improve(kInfinity);
      if (whole.bound() == kInfinity) continue;
      for (const double share : {0.1, 0.5, 0.9}) {
        const double enough = first + share * (whole.bound() - first);
        parts.improve(enough);
        EXPECT_GE(parts.bound(), enough);
      }
      parts.improve(kInfinity);
      EXPECT_EQ(parts.bound(), whole.bound());
      EXPECT_EQ(parts.multipliers().prefill, whole.multipliers().prefill);
      EXPECT_EQ(parts.multipliers().decode, whole.multipliers().decode);
      ++compared;
    }
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace tessera::solver::exact::exact_parts_test
