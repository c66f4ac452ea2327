#include "tessera/core/stage_place.h"

#include <gtest/gtest.h>

namespace tessera::stage_place_test {
namespace {

// Tables of an instance are [sharding][place]: random instances and published files rely on it.
TEST(StagePlace, IndexesTablesByFirstThenLast) {
  EXPECT_EQ(index_of(StagePlace::middle), 0u);
  EXPECT_EQ(index_of(StagePlace::first), 1u);
  EXPECT_EQ(index_of(StagePlace::last), 2u);
  EXPECT_EQ(index_of(StagePlace::only), 3u);
  for (std::size_t i = 0; i < kNumStagePlaces; ++i) EXPECT_EQ(index_of(kStagePlaces[i]), i);
}

TEST(StagePlace, IsTheEndsThatItSays) {
  for (const bool first : {false, true}) {
    for (const bool last : {false, true}) {
      EXPECT_EQ(is_first(stage_place(first, last)), first);
      EXPECT_EQ(is_last(stage_place(first, last)), last);
    }
  }
}

TEST(StagePlace, FollowsFromThePosition) {
  EXPECT_EQ(place_at(0, 1), StagePlace::only);
  EXPECT_EQ(place_at(0, 3), StagePlace::first);
  EXPECT_EQ(place_at(1, 3), StagePlace::middle);
  EXPECT_EQ(place_at(2, 3), StagePlace::last);
}

TEST(StagePlace, HasOneValueEach) {
  ByPlace<int> values;
  for (const StagePlace place : kStagePlaces) {
    EXPECT_EQ(values[place], 0);
    values[place] = 10 * static_cast<int>(index_of(place));
  }
  EXPECT_EQ(values[StagePlace::last], 20);
  EXPECT_EQ(*(values.end() - 1), 30);
}

}  // namespace
}  // namespace tessera::stage_place_test
