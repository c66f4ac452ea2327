// The best split of devices against an enumeration of all of them.

#include "planning/best_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

namespace tessera::solver::best_split_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<Counts> counts_of(const BestSplit& split, const std::vector<std::size_t>& parts) {
  std::vector<Counts> counts;
  for (const std::size_t part : parts) counts.push_back(split.parts()[part]);
  return counts;
}

/// The largest worth of parts taken from `left`, the first of them at index `from` or after.
std::int64_t most(const BestSplit& split, const std::vector<std::int64_t>& worth,
                  const Counts& left, std::size_t from, bool may_leave_out) {
  const bool done = std::accumulate(left.begin(), left.end(), std::size_t{0}) == 0;
  std::int64_t best = done || may_leave_out ? 0 : -1;
  for (std::size_t i = from; i < split.parts().size(); ++i) {
    const Counts& part = split.parts()[i];
    Counts rest = left;
    bool fits = worth[i] > 0;
    for (std::size_t k = 0; k < left.size(); ++k) {
      fits = fits && part[k] <= left[k];
      rest[k] -= std::min(part[k], left[k]);
    }
    if (!fits) continue;
    const std::int64_t others = most(split, worth, rest, i, may_leave_out);
    if (others >= 0) best = std::max(best, worth[i] + others);
  }
  return best;
}

TEST(BestSplit, IsTheBestOfAll) {
  std::mt19937 random(7);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  int empty = 0, several = 0;
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE("draw " + std::to_string(i));
    Counts all;
    for (int k = draw(1, 3); k > 0; --k) all.push_back(static_cast<std::size_t>(draw(1, 2)));
    const bool may_leave_out = draw(0, 1) == 0;
    const BestSplit split(all, may_leave_out);
    EXPECT_TRUE(split.is_complete());
    std::vector<std::int64_t> worth;
    for (std::size_t part = 0; part < split.parts().size(); ++part) {
      worth.push_back(std::max(0, draw(-4, 9)));
    }
    const std::vector<std::size_t> parts = split.best(worth);
    Counts used(all.size());
    std::int64_t sum = 0;
    for (const std::size_t part : parts) {
      EXPECT_GT(worth[part], 0);
      sum += worth[part];
      for (std::size_t k = 0; k < all.size(); ++k) used[k] += split.parts()[part][k];
    }
    const std::int64_t best = most(split, worth, all, 0, may_leave_out);
    if (parts.empty()) {
      EXPECT_LE(best, 0);
      ++empty;
      continue;
    }
    EXPECT_EQ(sum, best);
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (may_leave_out) {
        EXPECT_LE(used[k], all[k]);
      } else {
        EXPECT_EQ(used[k], all[k]);
      }
    }
    if (parts.size() > 1) ++several;
  }
  EXPECT_GE(empty, 5);
  EXPECT_GE(several, 50);
}

TEST(BestSplit, TakesFewPartsWhereManyAreWorthNoMore) {
  const BestSplit split({4}, true);
  ASSERT_THAT(counts_of(split, {0, 1, 2, 3}),
              ElementsAre(Counts{1}, Counts{2}, Counts{3}, Counts{4}));
  EXPECT_THAT(counts_of(split, split.best({2, 4, 6, 8})), ElementsAre(Counts{4}));
  EXPECT_THAT(counts_of(split, split.best({2, 5, 6, 8})), ElementsAre(Counts{2}, Counts{2}));
  EXPECT_THAT(split.best({0, 0, 0, 0}), IsEmpty());
}

TEST(BestSplit, TakesManyUnlikeDevicesInLumps) {
  const BestSplit split({16, 16, 16, 16}, true);
  EXPECT_FALSE(split.is_complete());
  EXPECT_LE(split.parts().size(), 700u + 64u);
  std::vector<std::int64_t> worth(split.parts().size(), 0);
  for (std::size_t i = 0; i < worth.size(); ++i) {  // three of the first, or four of each
    if (split.parts()[i] == Counts{3, 0, 0, 0}) worth[i] = 3;
    if (split.parts()[i] == Counts{4, 4, 4, 4}) worth[i] = 40;
  }
  EXPECT_THAT(counts_of(split, split.best(worth)),
              UnorderedElementsAre(Counts{4, 4, 4, 4}, Counts{4, 4, 4, 4}, Counts{4, 4, 4, 4},
                                   Counts{4, 4, 4, 4}));
}

}  // namespace
}  // namespace tessera::solver::best_split_test
