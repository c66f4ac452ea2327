#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "../../kernels/cuda/device/gemm_arguments.cuh"
#include "../../kernels/cuda/device/tile_gemm.cuh"

// The index arithmetic that kernels and packing share.
namespace tessera::kernels::cuda::layout_test {
namespace {

TEST(CudaLayout, SlotAndPlaceAreInverse) {
  std::set<std::tuple<int, int, int, int>> seen;
  for (int row = 0; row < kTileRows; ++row)
    for (int column = 0; column < kTileColumns; ++column) {
      const Slot slot = slot_of(row, column);
      const Place back = place_of(slot);
      EXPECT_EQ(back.row, row);
      EXPECT_EQ(back.column, column);
      EXPECT_TRUE(seen.insert({slot.lane, slot.step, slot.pair, slot.half}).second);
      EXPECT_LT(slot.lane, 32);
      EXPECT_LT(slot.step, 4);
      EXPECT_LT(slot.pair, 4);
    }
}

TEST(CudaLayout, StepsStayInTheirHalfOfTheTile) {
  for (int column = 0; column < kTileColumns; ++column)
    EXPECT_EQ(slot_of(0, column).step / 2, column / kHalfColumns);
}

TEST(CudaLayout, EveryBitOfATileHasItsOwnPlace) {
  for (const int bitwidth : {3, 4, 8}) {
    std::set<std::pair<int, int>> bits;
    for (int row = 0; row < kTileRows; ++row)
      for (int column = 0; column < kTileColumns; ++column)
        for (int i = 0; i < bitwidth; ++i) {
          const Slot slot = slot_of(row, column);
          const BitPlace place = bit_place(bitwidth, slot, i);
          EXPECT_LT(place.word, lane_words(bitwidth));
          EXPECT_LT(place.bit, 32);
          EXPECT_TRUE(
              bits.insert({word_in_tile(bitwidth, slot.lane, place.word), place.bit}).second);
        }
    // 16 x 64 codes fill the tile without a gap.
    EXPECT_EQ(bits.size(), static_cast<std::size_t>(tile_words(bitwidth)) * 32);
  }
}

TEST(CudaLayout, ALanesScalesAreNeighbours) {
  for (int g = 0; g < 8; ++g)
    EXPECT_EQ(scale_index(16 + g + 8, 2, 5), scale_index(16 + g, 2, 5) + 1);
}

TEST(CudaLayout, ScalesHaveTheirOwnPlaces) {
  std::set<std::int64_t> seen;
  for (std::int64_t row = 0; row < 48; ++row)
    for (std::int64_t group = 0; group < 3; ++group)
      EXPECT_TRUE(seen.insert(scale_index(row, group, 3)).second);
  EXPECT_EQ(*seen.rbegin(), 48 * 3 - 1);
}

// A 16-byte load is served to eight lanes at a time; they must find 32 different banks.
TEST(CudaLayout, SharedActivationsHaveNoBankConflicts) {
  for (int half = 0; half < 2; ++half)
    for (int quarter = 0; quarter < 4; ++quarter) {
      std::set<int> vectors;
      for (int lane = 8 * quarter; lane < 8 * quarter + 8; ++lane)
        vectors.insert(shared_vector(lane / 4, 4 * half + lane % 4) % 8);
      EXPECT_EQ(vectors.size(), 8u);
    }
  std::set<int> all;
  for (int token = 0; token < 16; ++token)
    for (int vector = 0; vector < 8; ++vector) all.insert(shared_vector(token, vector));
  EXPECT_EQ(all.size(), 128u);
  EXPECT_EQ(*all.rbegin(), 127);
}

TEST(CudaLayout, TheReciprocalFindsEveryGroup) {
  for (const int halves : {1, 2, 3, 4, 5, 7, 64, 1000, 65535}) {
    GemmArguments p{};
    p.group_reciprocal = ((std::uint64_t{1} << 32) + static_cast<std::uint64_t>(halves) - 1) /
                         static_cast<std::uint64_t>(halves);
    for (int half = 0; half < 65536; ++half)
      ASSERT_EQ(group_of(p, half), half / halves) << half << " / " << halves;
  }
}

}  // namespace
}  // namespace tessera::kernels::cuda::layout_test
