#include "support.h"
#include "tessera/kernels/random.h"

namespace tessera::kernels::types_test {
namespace {

// Every f16 goes through f32 and back unchanged (a signalling NaN comes back quiet).
TEST(Types, AllHalfNumbersSurvive) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool nan = (bits & 0x7fff) > 0x7c00;
    ASSERT_EQ(f32_to_f16(f16_to_f32(half)), nan ? half | 0x200 : half) << bits;
    const bool bf_nan = (bits & 0x7fff) > 0x7f80;
    ASSERT_EQ(f32_to_bf16(bf16_to_f32(half)), bf_nan ? half | 0x40 : half) << bits;
  }
}

// The nearest neighbour wins, the even one between two: halfway and one step of f32 to either side.
TEST(Types, RoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits + 1 < 0x7c00; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits), high = static_cast<std::uint16_t>(bits + 1);
    const float middle = (f16_to_f32(low) + f16_to_f32(high)) / 2;
    ASSERT_EQ(f32_to_f16(middle), bits % 2 == 0 ? low : high) << bits;
    ASSERT_EQ(f32_to_f16(std::nextafterf(middle, 0)), low) << bits;
    ASSERT_EQ(f32_to_f16(std::nextafterf(middle, 1e9f)), high) << bits;
    ASSERT_EQ(f32_to_f16(-middle), (bits % 2 == 0 ? low : high) | 0x8000) << bits;
  }
  for (std::uint32_t bits = 0; bits + 1 < 0x7f80; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits), high = static_cast<std::uint16_t>(bits + 1);
    const float middle = std::bit_cast<float>(bits << 16 | 0x8000u);
    ASSERT_EQ(f32_to_bf16(middle), bits % 2 == 0 ? low : high) << bits;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(bits << 16 | 0x7fffu)), low) << bits;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(bits << 16 | 0x8001u)), high) << bits;
  }
  EXPECT_EQ(f32_to_f16(65519.9f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(INFINITY), 0x7c00);
  EXPECT_EQ(f32_to_bf16(3.4028235e38f), 0x7f80);
}

TEST(Types, DescribesEveryStatus) {
  EXPECT_STREQ(describe(Status::ok), "ok");
  EXPECT_STREQ(describe(Status::invalid_argument), "invalid argument");
  EXPECT_STREQ(describe(Status::unsupported), "unsupported");
  EXPECT_STREQ(describe(Status::device_error), "device error");
}

// The vector that the authors publish with Random123 (kat_vectors, philox4x32 10).
TEST(Random, IsPhilox) {
  const RandomBlock block = random_block(0, 0);
  EXPECT_EQ(block.word[0], 0x6627e8d5u);
  EXPECT_EQ(block.word[1], 0xe169c58du);
  EXPECT_EQ(block.word[2], 0xbc57ac4cu);
  EXPECT_EQ(block.word[3], 0x9b00dbd8u);
}

TEST(Random, UniformIsUniform) {
  SCOPED_TRACE(test::seed_line());
  constexpr int kBins = 64, kDraws = 1 << 18;
  std::vector<double> bins(kBins);
  double sum = 0, neighbours = 0, before = 0.5;
  for (int i = 0; i < kDraws; ++i) {
    const double u = stochastic_uniform(test::seed(), static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    bins[static_cast<std::size_t>(u * kBins)] += 1;
    sum += u;
    neighbours += (u - 0.5) * (before - 0.5);
    before = u;
  }
  double chi_squared = 0;
  const double expected = double{kDraws} / kBins;
  for (const double n : bins) chi_squared += (n - expected) * (n - expected) / expected;
  EXPECT_NEAR(chi_squared, kBins - 1, 5 * std::sqrt(2.0 * (kBins - 1)));
  EXPECT_NEAR(sum / kDraws, 0.5, 4 / std::sqrt(12.0 * kDraws));
  EXPECT_NEAR(neighbours / kDraws, 0, 4 / 12.0 / std::sqrt(double{kDraws}));
}

}  // namespace
}  // namespace tessera::kernels::types_test
