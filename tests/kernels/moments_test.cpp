#include "tessera/kernels/moments.h"

#include <algorithm>
#include <random>

#include "support.h"
#include "tessera/kernels/quantise.h"

namespace tessera::kernels::moments_test {
namespace {

using test::Guarded;
using test::Stored;

/// Two passes in long double.
Moments expected_moments(Stored& x, std::int64_t first, std::int64_t count) {
  Moments m;
  long double sum = 0, squares = 0;
  for (std::int64_t i = first; i < first + count; ++i) {
    if (!std::isfinite(x[i])) {
      ++m.num_not_finite;
      continue;
    }
    ++m.count;
    m.min = std::min(m.min, double{x[i]});
    m.max = std::max(m.max, double{x[i]});
    sum += x[i];
  }
  if (m.count == 0) return m;
  const long double mean = sum / m.count;
  for (std::int64_t i = first; i < first + count; ++i) {
    if (std::isfinite(x[i])) squares += (x[i] - mean) * (x[i] - mean);
  }
  m.mean = static_cast<double>(mean);
  m.variance = static_cast<double>(squares / m.count);
  return m;
}

/// `tolerance` is relative to the deviation (of the mean) and to the variance.
void expect_close(const Moments& got, const Moments& expected, double tolerance) {
  EXPECT_EQ(got.min, expected.min);
  EXPECT_EQ(got.max, expected.max);
  EXPECT_EQ(got.count, expected.count);
  EXPECT_EQ(got.num_not_finite, expected.num_not_finite);
  const double deviation = std::sqrt(expected.variance);
  EXPECT_NEAR(got.mean, expected.mean, tolerance * deviation + 5e-12 * std::fabs(expected.mean));
  EXPECT_NEAR(got.variance, expected.variance, tolerance * expected.variance);
}

TEST(Moments, MatchTwoPassesInLongDouble) {
  test::for_each_isa([](const std::string&) {
    for (const Real type : {Real::f32, Real::f16, Real::bf16}) {
      for (const std::int64_t count : {1, 2, 7, 8, 15, 16, 17, 63, 64, 100, 1000, 4099, 70001}) {
        for (const std::int64_t misalign : {0, 2}) {
          Stored x(test::normal_values(count, static_cast<std::uint64_t>(count), 0.1, 0.02), type,
                   misalign);
          Moments got;
          ASSERT_EQ(moments(x.memory.data(), type, count, &got), Status::ok);
          expect_close(got, expected_moments(x, 0, count), 1e-6);
        }
      }
    }
  });
}

// A mean that is a million deviations from zero: sums of squares would have no digit left. Around
// 1e8 neighbours in f32 are 8 apart, so that a few of the numbers make up the variance.
TEST(Moments, SurviveALargeMean) {
  test::for_each_isa([](const std::string&) {
    for (const double mean : {1e3, 1e5, -1e6, 1e8}) {
      for (const std::uint64_t stream : {7, 8, 9, 10}) {
        Stored x(test::normal_values(100003, stream, mean, 1), Real::f32);
        Moments got;
        ASSERT_EQ(moments(x.memory.data(), Real::f32, 100003, &got), Status::ok);
        expect_close(got, expected_moments(x, 0, 100003), 1e-5);
      }
    }
  });
}

// The first value, from which a simple shift would start, is far from all others.
TEST(Moments, SurviveAFirstValueFarAway) {
  test::for_each_isa([](const std::string&) {
    std::vector<float> values = test::normal_values(50000, 8, 5, 1e-3);
    values.front() = -4e4f;
    Stored x(values, Real::f32);
    Moments got;
    ASSERT_EQ(moments(x.memory.data(), Real::f32, 50000, &got), Status::ok);
    expect_close(got, expected_moments(x, 0, 50000), 1e-5);
  });
}

// A slow drift: every block has a mean of its own.
TEST(Moments, SurviveADrift) {
  test::for_each_isa([](const std::string&) {
    std::vector<float> values = test::normal_values(300000, 9, 0, 1e-2);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += static_cast<float>(i) * 1e-3f;
    Stored x(values, Real::f32);
    Moments got;
    ASSERT_EQ(moments(x.memory.data(), Real::f32, 300000, &got), Status::ok);
    expect_close(got, expected_moments(x, 0, 300000), 1e-6);
  });
}

TEST(Moments, CountWhatIsNotFinite) {
  test::for_each_isa([](const std::string&) {
    for (const Real type : {Real::f32, Real::f16, Real::bf16}) {
      std::vector<float> values = test::normal_values(5000, 10);
      for (const std::size_t at : {0u, 1u, 63u, 64u, 65u, 2500u, 4998u, 4999u}) {
        values[at] = at % 3 == 0 ? NAN : at % 3 == 1 ? INFINITY : -INFINITY;
      }
      Stored x(values, type);
      Moments got;
      ASSERT_EQ(moments(x.memory.data(), type, 5000, &got), Status::ok);
      EXPECT_EQ(got.num_not_finite, 8);
      expect_close(got, expected_moments(x, 0, 5000), 1e-6);
      const std::vector<float> none(100, NAN);
      Stored nothing(none, type);
      ASSERT_EQ(moments(nothing.memory.data(), type, 100, &got), Status::ok);
      expect_close(got, expected_moments(nothing, 0, 100), 0);
      EXPECT_EQ(got.count, 0);
      EXPECT_EQ(got.variance, 0);
    }
  });
}

// Squares of these do not fit into f32.
TEST(Moments, SurviveHugeAndTinyValues) {
  test::for_each_isa([](const std::string&) {
    for (const double size : {3e37, 1e30, 1e-30, 1e-42}) {
      std::vector<float> values = test::normal_values(3000, 11, 0, size);
      Stored x(values, Real::f32);
      Moments got;
      ASSERT_EQ(moments(x.memory.data(), Real::f32, 3000, &got), Status::ok);
      expect_close(got, expected_moments(x, 0, 3000), 1e-5);
    }
    const std::vector<float> same(12345, 0.1f);
    Stored x(same, Real::f32);
    Moments got;
    ASSERT_EQ(moments(x.memory.data(), Real::f32, 12345, &got), Status::ok);
    EXPECT_EQ(got.variance, 0);
    EXPECT_EQ(got.mean, double{0.1f});
  });
}

TEST(Moments, MergeIsTheMomentsOfBoth) {
  for (const std::int64_t split : {0, 1, 17, 999, 1000}) {
    Stored x(test::normal_values(1000, 12, 3, 2), Real::f32);
    const Moments both =
        merge(expected_moments(x, 0, split), expected_moments(x, split, 1000 - split));
    expect_close(both, expected_moments(x, 0, 1000), 1e-12);
  }
}

TEST(GroupMoments, TakeEveryGroupOfEveryRow) {
  test::for_each_isa([](const std::string&) {
    constexpr std::int64_t kRows = 5, kColumns = 77, kStride = 81;
    Stored x(test::normal_values(kRows * kStride, 13), Real::bf16);
    for (const std::int64_t group : {0, 1, 10, 32, 77, 1000}) {
      const std::int64_t groups = num_groups(kColumns, group);
      std::vector<Moments> got(static_cast<std::size_t>(kRows * groups));
      const Matrix matrix{x.memory.data(), Real::bf16, kRows, kColumns, kStride};
      ASSERT_EQ(group_moments(matrix, {1, 4}, group, got.data()), Status::ok);
      const std::int64_t size = group == 0 ? kColumns : group;
      for (std::int64_t row = 0; row < kRows; ++row) {
        for (std::int64_t g = 0; g < groups; ++g) {
          const Moments& m = got[static_cast<std::size_t>(row * groups + g)];
          if (row == 0 || row == 4) {
            EXPECT_EQ(m.count, 0);  // rows outside the slice stay as they were
            continue;
          }
          const std::int64_t count = std::min(size, kColumns - g * size);
          expect_close(m, expected_moments(x, row * kStride + g * size, count), 1e-6);
        }
      }
    }
  });
}

// Every size around that of a vector, signs mixed and not: the ends are found from the bits.
TEST(GroupRanges, AreThoseOfTheMoments) {
  test::for_each_isa([](const std::string&) {
    for (const Real type : {Real::f32, Real::f16, Real::bf16}) {
      for (const double mean : {-9.0, 0.0, 9.0}) {
        constexpr std::int64_t kRows = 3, kColumns = 150, kStride = 151;
        std::vector<float> values = test::normal_values(kRows * kStride, 14, mean);
        values[5] = -0.0f;
        values[kStride] = 0;
        Stored x(values, type, 2);
        const Matrix matrix{x.memory.data(), type, kRows, kColumns, kStride};
        for (const std::int64_t group : {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 50, 128, 150}) {
          const std::int64_t groups = num_groups(kColumns, group);
          std::vector<Moments> moments(static_cast<std::size_t>(kRows * groups));
          Guarded<Range> got(kRows * groups);
          ASSERT_EQ(group_moments(matrix, {0, kRows}, group, moments.data()), Status::ok);
          ASSERT_EQ(group_ranges(matrix, {0, kRows}, group, got.data()), Status::ok);
          ASSERT_EQ(got.num_touched(), 0);
          for (std::size_t i = 0; i < moments.size(); ++i) {
            ASSERT_EQ(got[static_cast<std::int64_t>(i)].min, moments[i].min) << group;
            ASSERT_EQ(got[static_cast<std::int64_t>(i)].max, moments[i].max) << group;
          }
        }
      }
    }
  });
}

TEST(GroupRanges, AreNaNWhereANumberIsNotFinite) {
  test::for_each_isa([](const std::string&) {
    for (const Real type : {Real::f32, Real::f16, Real::bf16}) {
      for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
        for (const double mean : {-9.0, 9.0}) {
          for (const std::int64_t count : {1, 5, 40}) {
            for (const std::int64_t at : {std::int64_t{0}, count / 2, count - 1}) {
              std::vector<float> values = test::normal_values(2 * count, 15, mean);
              values[static_cast<std::size_t>(count + at)] = bad;
              Stored x(values, type);
              Range got[2];
              const Matrix matrix{x.memory.data(), type, 2, count, count};
              ASSERT_EQ(group_ranges(matrix, {0, 2}, 0, got), Status::ok);
              EXPECT_TRUE(got[0].min <= got[0].max);
              EXPECT_TRUE(std::isnan(got[1].min) && std::isnan(got[1].max)) << bad << " " << at;
            }
          }
        }
      }
    }
  });
}

// The largest numbers of each type are no infinities.
TEST(GroupRanges, TakeTheLargestNumbers) {
  test::for_each_isa([](const std::string&) {
    const float largest[] = {3.4028234664e38f, 65504.0f, 3.38953139e38f};
    for (const Real type : {Real::f32, Real::f16, Real::bf16}) {
      const float most = largest[static_cast<int>(type)];
      Stored x(std::vector<float>{1, most, -most}, type);
      Range got{};
      ASSERT_EQ(group_ranges({x.memory.data(), type, 1, 3, 3}, {0, 1}, 0, &got), Status::ok);
      EXPECT_EQ(got.min, -most);
      EXPECT_EQ(got.max, most);
    }
  });
}

// Numbers of groups around that of a step, and the largest and smallest codes at every place.
TEST(CodeRanges, AreTheEndsOfEveryGroup) {
  test::for_each_isa([](const std::string&) {
    for (const std::int64_t group : {1, 7, 16, 31, 32, 33, 64}) {
      for (const std::int64_t groups : {1, 2, 31, 32, 33, 64, 77}) {
        std::vector<std::int8_t> codes(static_cast<std::size_t>(groups * group));
        std::mt19937 random(17);
        for (std::int8_t& code : codes) code = static_cast<std::int8_t>(random() % 199 - 99);
        for (std::int64_t g = 0; g < groups; ++g) {
          codes[static_cast<std::size_t>(g * group + g % group)] = g % 2 == 0 ? 127 : -128;
        }
        Guarded<std::int8_t> min(groups), max(groups);
        ASSERT_EQ(code_ranges(codes.data(), groups, group, min.data(), max.data()), Status::ok);
        ASSERT_EQ(min.num_touched() + max.num_touched(), 0);
        for (std::int64_t g = 0; g < groups; ++g) {
          std::int8_t low = 127, high = -128;
          for (std::int64_t i = g * group; i < (g + 1) * group; ++i) {
            low = std::min(low, codes[static_cast<std::size_t>(i)]);
            high = std::max(high, codes[static_cast<std::size_t>(i)]);
          }
          ASSERT_EQ(min[g], low) << group << " " << groups << " " << g;
          ASSERT_EQ(max[g], high) << group << " " << groups << " " << g;
        }
      }
    }
  });
}

TEST(Moments, RefuseWhatIsWrong) {
  const float x[4] = {1, 2, 3, 4};
  Moments out;
  constexpr Status kBad = Status::invalid_argument;
  EXPECT_EQ(moments(nullptr, Real::f32, 4, &out), kBad);
  EXPECT_EQ(moments(x, Real::f32, 0, &out), kBad);
  EXPECT_EQ(moments(x, Real::f32, -1, &out), kBad);
  EXPECT_EQ(moments(x, static_cast<Real>(9), 4, &out), kBad);
  EXPECT_EQ(moments(x, Real::f32, 4, nullptr), kBad);
  const Matrix good{x, Real::f32, 2, 2, 2};
  EXPECT_EQ(group_moments({nullptr, Real::f32, 2, 2, 2}, {0, 2}, 0, &out), kBad);
  EXPECT_EQ(group_moments({x, Real::f32, 2, 2, 1}, {0, 2}, 0, &out), kBad);
  EXPECT_EQ(group_moments({x, Real::f32, 0, 2, 2}, {0, 0}, 0, &out), kBad);
  EXPECT_EQ(group_moments({x, Real::f32, INT64_MAX, INT64_MAX, INT64_MAX}, {0, 1}, 0, &out), kBad);
  EXPECT_EQ(group_moments(good, {0, 3}, 0, &out), kBad);
  EXPECT_EQ(group_moments(good, {-1, 2}, 0, &out), kBad);
  EXPECT_EQ(group_moments(good, {1, 1}, 0, &out), kBad);
  EXPECT_EQ(group_moments(good, {0, 2}, -1, &out), kBad);
  EXPECT_EQ(group_moments(good, {0, 2}, 0, nullptr), kBad);
  Range range;
  EXPECT_EQ(group_ranges({nullptr, Real::f32, 2, 2, 2}, {0, 2}, 0, &range), kBad);
  EXPECT_EQ(group_ranges(good, {0, 3}, 0, &range), kBad);
  EXPECT_EQ(group_ranges(good, {0, 2}, -1, &range), kBad);
  EXPECT_EQ(group_ranges(good, {0, 2}, 0, nullptr), kBad);
  const std::int8_t codes[2] = {1, 2};
  std::int8_t end;
  EXPECT_EQ(code_ranges(nullptr, 1, 2, &end, &end), kBad);
  EXPECT_EQ(code_ranges(codes, 0, 2, &end, &end), kBad);
  EXPECT_EQ(code_ranges(codes, 1, 0, &end, &end), kBad);
  EXPECT_EQ(code_ranges(codes, 1, 2, nullptr, &end), kBad);
  EXPECT_EQ(code_ranges(codes, 1, 2, &end, nullptr), kBad);
}

}  // namespace
}  // namespace tessera::kernels::moments_test
