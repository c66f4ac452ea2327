#include "tessera/kernels/rope.h"

#include "support.h"

namespace tessera::kernels::rope_test {
namespace {

using test::Guarded;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Rope {
  RopeForm form;
  std::int64_t stride;
};

std::vector<float> table_of(std::int64_t positions, std::int64_t width) {
  std::vector<float> table;
  for (std::int64_t p = 0; p < positions; ++p) {
    for (std::int64_t i = 0; i < width; ++i) {
      const auto pair = static_cast<double>(i % (width / 2));
      const double angle =
          static_cast<double>(p) * std::pow(10000.0, -2 * pair / static_cast<double>(width));
      table.push_back(static_cast<float>(i < width / 2 ? std::cos(angle) : std::sin(angle)));
    }
  }
  return table;
}

TEST(Rotate, TurnsEveryPairOfEveryHead) {
  constexpr std::int64_t kRows = 3;
  const std::int32_t positions[kRows] = {7, 0, 4};
  test::for_each_isa([&](const std::string&) {
    for (const std::int64_t width : {2, 6, 8, 16, 20, 32, 34, 64, 80, 128}) {
      for (const bool interleaved : {false, true}) {
        const std::int64_t head_dim = width + width % 3, heads = 3, stride = heads * head_dim + 5;
        const RopeForm form{heads, head_dim, width, interleaved};
        const std::vector<float> table = table_of(8, width);
        const std::vector<float> x = test::normal_values(kRows * stride, 1);
        Guarded<float> got(kRows * stride, 1);
        std::copy(x.begin(), x.end(), got.data());
        ASSERT_EQ(rotate(got.data(), stride, {0, 1}, form, table.data(), positions), Status::ok);
        ASSERT_EQ(rotate(got.data(), stride, {1, 3}, form, table.data(), positions), Status::ok);
        ASSERT_EQ(got.num_touched(), 0);
        std::vector<double> expected(x.begin(), x.end());
        for (std::int64_t row = 0; row < kRows; ++row) {
          for (std::int64_t at = 0; at < heads * width / 2; ++at) {
            const std::int64_t head = at / (width / 2), pair = at % (width / 2);
            const std::int64_t start = row * stride + head * head_dim;
            const std::size_t a = index(start + (interleaved ? 2 * pair : pair));
            const std::size_t b = index(start + (interleaved ? 2 * pair + 1 : pair + width / 2));
            const double c = table[index(positions[row] * width + pair)];
            const double s = table[index(positions[row] * width + width / 2 + pair)];
            expected[a] = x[a] * c - x[b] * s;
            expected[b] = x[b] * c + x[a] * s;
          }
        }
        for (std::int64_t i = 0; i < kRows * stride; ++i) {
          ASSERT_NEAR(got[i], expected[index(i)], 1e-6)
              << "width " << width << (interleaved ? " interleaved " : " halves ") << i;
        }
      }
    }
  });
}

TEST(Rotate, RefusesWhatIsNotValidAndLeavesTheRows) {
  std::vector<float> x(32, 1.0f), table(16, 0.5f);
  const std::int32_t positions[] = {0, 1}, negative[] = {0, -1};
  const RopeForm form{2, 8, 8, false};
  constexpr Status kBad = Status::invalid_argument;
  EXPECT_EQ(rotate(nullptr, 16, {0, 2}, form, table.data(), positions), kBad);
  EXPECT_EQ(rotate(x.data(), 16, {0, 2}, form, nullptr, positions), kBad);
  EXPECT_EQ(rotate(x.data(), 16, {0, 2}, form, table.data(), nullptr), kBad);
  EXPECT_EQ(rotate(x.data(), 16, {0, 2}, form, table.data(), negative), kBad);
  EXPECT_EQ(rotate(x.data(), 15, {0, 2}, form, table.data(), positions), kBad);
  EXPECT_EQ(rotate(x.data(), 16, {0, 0}, form, table.data(), positions), kBad);
  for (const RopeForm bad :
       {RopeForm{0, 8, 8, false}, RopeForm{2, 0, 8, false}, RopeForm{2, 8, 10, false},
        RopeForm{2, 8, 7, false}, RopeForm{2, 8, 0, false}, RopeForm{2, 8, -2, true}}) {
    EXPECT_EQ(rotate(x.data(), 16, {0, 2}, bad, table.data(), positions), kBad);
  }
  EXPECT_EQ(x, std::vector<float>(32, 1.0f));
}

}  // namespace
}  // namespace tessera::kernels::rope_test
