#include "tessera/kernels/pack.h"

#include "support.h"

namespace tessera::kernels::pack_test {
namespace {

using test::Guarded;

std::vector<std::uint8_t> random_codes(std::int64_t count, int bitwidth, std::uint64_t stream) {
  std::mt19937_64 random(test::seed() + stream);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count));
  for (auto& code : codes) code = static_cast<std::uint8_t>(random() & ((1u << bitwidth) - 1));
  return codes;
}

TEST(Pack, PutsBitsWhereThePictureSays) {
  const std::uint8_t codes[] = {1, 2, 3, 4, 5, 6, 7, 0, 5};
  std::uint8_t packed[4];
  ASSERT_EQ(pack(codes, {0, 1}, 9, 3, packed), Status::ok);
  const std::uint32_t bits = 1 | 2 << 3 | 3 << 6 | 4 << 9 | 5 << 12 | 6 << 15 | 7 << 18 | 5 << 24;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(packed[i], static_cast<std::uint8_t>(bits >> (8 * i)));
  ASSERT_EQ(pack(codes, {0, 1}, 5, 4, packed), Status::ok);
  EXPECT_EQ(packed[0], 0x21);
  EXPECT_EQ(packed[1], 0x43);
  EXPECT_EQ(packed[2], 0x05);
  EXPECT_EQ(packed[3], 0);
}

TEST(Pack, AndUnpackAreExact) {
  SCOPED_TRACE(test::seed_line());
  for (const int bitwidth : {3, 4, 8}) {
    for (std::int64_t columns = 1; columns < 75; ++columns) {
      constexpr std::int64_t kRows = 4;
      const auto codes = random_codes(kRows * columns, bitwidth, 1);
      const std::int64_t row_bytes = packed_row_bytes(columns, bitwidth);
      ASSERT_EQ(row_bytes % 4, 0);
      ASSERT_LT(row_bytes * 8 - columns * bitwidth, 32);
      Guarded<std::uint8_t> packed(kRows * row_bytes, 1);
      Guarded<std::uint8_t> back(kRows * columns, 1);
      ASSERT_EQ(pack(codes.data(), {0, 2}, columns, bitwidth, packed.data()), Status::ok);
      ASSERT_EQ(pack(codes.data(), {2, 4}, columns, bitwidth, packed.data()), Status::ok);
      ASSERT_EQ(unpack(packed.data(), {0, 3}, columns, bitwidth, back.data()), Status::ok);
      ASSERT_EQ(unpack(packed.data(), {3, 4}, columns, bitwidth, back.data()), Status::ok);
      ASSERT_EQ(back.copy(), codes) << bitwidth << " bits, " << columns << " columns";
      ASSERT_EQ(packed.num_touched() + back.num_touched(), 0);
    }
  }
}

TEST(Pack, RefusesWhatIsWrong) {
  std::uint8_t a[64] = {}, b[64] = {};
  constexpr Status kBad = Status::invalid_argument;
  for (const auto f : {pack, unpack}) {
    EXPECT_EQ(f(nullptr, {0, 1}, 4, 4, b), kBad);
    EXPECT_EQ(f(a, {0, 1}, 4, 4, nullptr), kBad);
    EXPECT_EQ(f(a, {0, 1}, 0, 4, b), kBad);
    EXPECT_EQ(f(a, {0, 1}, -4, 4, b), kBad);
    EXPECT_EQ(f(a, {0, 0}, 4, 4, b), kBad);
    EXPECT_EQ(f(a, {-1, 1}, 4, 4, b), kBad);
    EXPECT_EQ(f(a, {0, 1}, INT64_MAX, 4, b), kBad);
    for (const int bitwidth : {-1, 0, 2, 5, 16}) EXPECT_EQ(f(a, {0, 1}, 4, bitwidth, b), kBad);
  }
}

}  // namespace
}  // namespace tessera::kernels::pack_test
