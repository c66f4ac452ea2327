// Verification of drafts: the lecture's example, the ends of the rule, and its law over a million
// draws. Bounds are the quantile 1 - 1e-6 of the statistic, chosen before the first run.

#include "tessera/serving/verify.h"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "chi_square.h"
#include "expect_error.h"
#include "tessera/serving/gain.h"

namespace tessera::serving::verify_test {
namespace {

using testing::ElementsAre;

// The lecture's draft model q and target model p, over tokens A, B, C.
const std::vector<double> kQ{0.2, 0.5, 0.3}, kP{0.5, 0.3, 0.2};
constexpr std::int64_t kNumDraws = 1'000'000;

template <class Real>
ProbabilityRows<Real> rows(const std::vector<Real>& values, std::size_t vocab_size = 3) {
  return {values, vocab_size};
}

std::vector<double> repeated(const std::vector<double>& row, std::size_t times) {
  std::vector<double> all;
  for (std::size_t i = 0; i < times; ++i) all.insert(all.end(), row.begin(), row.end());
  return all;
}

std::int32_t drawn_from(const std::vector<double>& row, Rng& rng) {
  double draw = rng.uniform();
  std::int32_t token = 0;
  while (token + 1 < static_cast<std::int32_t>(row.size()) &&
         draw >= row[static_cast<std::size_t>(token)]) {
    draw -= row[static_cast<std::size_t>(token++)];
  }
  return token;
}

TEST(Verify, HasTheLecturesNumbers) {
  std::vector<double> left(3);
  EXPECT_NEAR(acceptance_rate<double>(kQ, kP), 0.7, 1e-15);
  EXPECT_NEAR(residual<double>(kQ, kP, left), 0.3, 1e-15);
  EXPECT_THAT(left, ElementsAre(1, 0, 0));
  EXPECT_NEAR(expected_tokens(acceptance_rate<double>(kQ, kP), 4), 2.773, 5e-4);
}

TEST(Verify, AcceptsAsTheLectureSaysAndRejectsIntoA) {
  const std::vector<double> target = repeated(kP, 2), shares{1, 0.6, 2.0 / 3};
  Rng rng(1);
  for (std::int32_t token = 0; token < 3; ++token) {
    std::vector<std::int64_t> counts(2);
    for (std::int64_t i = 0; i < kNumDraws; ++i) {
      const auto one = verify<double>(std::array{token}, rows(kQ), rows(target), rng);
      ++counts[one.num_accepted];
      ASSERT_TRUE(one.num_accepted == 1 || one.next == 0);
    }
    const double share = shares[static_cast<std::size_t>(token)];
    EXPECT_TRUE(token != 0 || counts[0] == 0);
    EXPECT_LT(test::chi_square(counts, {1 - share, share}), test::chi_square_bound(1));
  }
}

TEST(Verify, GivesTokensOfTheTargetWhateverTheDraftModel) {
  for (const std::vector<double>& q : {kQ, kP, std::vector<double>{0, 1, 0}}) {
    const std::vector<double> target = repeated(kP, 2);
    Rng rng(2);
    std::vector<std::int64_t> first(3);
    for (std::int64_t i = 0; i < kNumDraws; ++i) {
      const std::array draft{drawn_from(q, rng)};
      const auto one = verify<double>(draft, rows(q), rows(target), rng);
      ++first[static_cast<std::size_t>(one.num_accepted == 1 ? draft[0] : one.next)];
    }
    EXPECT_LT(test::chi_square(first, kP), test::chi_square_bound(2));
  }
}

// The law of a text, not only of a token: after A, the models say another thing than after B or C.
TEST(Verify, KeepsTheJointLawOfTwoTokens) {
  const std::array<std::vector<double>, 3> q{kQ, {0.1, 0.8, 0.1}, {0.4, 0.4, 0.2}};
  const std::array<std::vector<double>, 3> p{kP, {0.6, 0.1, 0.3}, {0.1, 0.2, 0.7}};
  std::vector<double> law;
  for (std::size_t i = 0; i < 9; ++i) law.push_back(kP[i / 3] * p[i / 3][i % 3]);
  const auto joined = [](std::initializer_list<std::vector<double>> parts) {
    std::vector<double> all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  Rng rng(3);
  std::vector<std::int64_t> counts(9);
  for (std::int64_t i = 0; i < kNumDraws; ++i) {
    std::array<std::int32_t, 2> text{drawn_from(kQ, rng), 0};
    const auto first = static_cast<std::size_t>(text[0]);
    text[1] = drawn_from(q[first], rng);
    const auto all = joined({kP, p[first], p[static_cast<std::size_t>(text[1])]});
    const auto step = verify<double>(text, rows(joined({kQ, q[first]})), rows(all), rng);
    if (step.num_accepted < 2) text[step.num_accepted] = step.next;
    if (step.num_accepted == 0) {  // a step without drafts
      text[1] = verify<double>({}, {}, rows(p[static_cast<std::size_t>(text[0])]), rng).next;
    }
    ++counts[static_cast<std::size_t>(3 * text[0] + text[1])];
  }
  EXPECT_LT(test::chi_square(counts, law), test::chi_square_bound(8));
}

TEST(Verify, TakesAsManyTokensPerStepAsExpected) {
  const std::vector<double> q = repeated(kQ, 4), p = repeated(kP, 5);
  std::vector<double> law;
  for (int i = 0; i < 4; ++i) law.push_back(std::pow(0.7, i) * 0.3);
  law.push_back(std::pow(0.7, 4));
  Rng rng(4);
  std::vector<std::int64_t> counts(5);
  double tokens = 0;
  for (std::int64_t i = 0; i < kNumDraws; ++i) {
    std::array<std::int32_t, 4> drafts{};
    for (auto& draft : drafts) draft = drawn_from(kQ, rng);
    const auto step = verify<double>(drafts, rows(q), rows(p), rng);
    ++counts[step.num_accepted];
    tokens += static_cast<double>(step.num_accepted + 1);
  }
  EXPECT_LT(test::chi_square(counts, law), test::chi_square_bound(4));
  // Standard deviation of a step's tokens by the law: 1.556. Five standard errors.
  EXPECT_NEAR(tokens / kNumDraws, expected_tokens(0.7, 4), 5 * 1.556 / std::sqrt(kNumDraws));
}

TEST(Verify, RejectsWhatTheDraftModelCannotHaveDrawn) {
  const std::vector<double> q{0, 0.5, 0.5}, p{0.5, 0.5, 0, 0.5, 0.5, 0};
  Rng rng(5);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(verify<double>(std::array{0}, rows(q), rows(p), rng), (Verified{0, 0}));
  }
}

TEST(Verify, FallsBackOnTheTargetWhereNothingIsLeft) {
  const std::vector<double> q{0, 0.5, 0.5}, p = repeated(q, 2);
  Rng rng(6);
  std::vector<std::int64_t> counts(3);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(verify<double>(std::array{1}, rows(q), rows(p), rng).num_accepted, 1u);
    const auto step = verify<double>(std::array{0}, rows(q), rows(p), rng);
    EXPECT_EQ(step.num_accepted, 0u);
    ++counts[static_cast<std::size_t>(step.next)];
  }
  EXPECT_LT(test::chi_square(counts, q), test::chi_square_bound(1));
}

TEST(Verify, TreatsCertainDraftsAsCertain) {
  const std::vector<double> one_hot{0, 1, 0}, p{0.5, 0.3, 0.2, 0.1, 0.2, 0.7};
  Rng a(7), b(7);
  std::int64_t accepted = 0;
  for (std::int64_t i = 0; i < kNumDraws; ++i) {
    const auto step = verify_certain<double>(std::array{1}, rows(p), a);
    ASSERT_EQ(step, verify<double>(std::array{1}, rows(one_hot), rows(p), b));
    accepted += static_cast<std::int64_t>(step.num_accepted);
    ASSERT_TRUE(step.num_accepted == 1 || step.next != 1);
  }
  EXPECT_LT(test::chi_square({kNumDraws - accepted, accepted}, {0.7, 0.3}),
            test::chi_square_bound(1));
}

TEST(Verify, IsGreedyWithoutADraw) {
  const std::vector<double> p{0.5, 0.3, 0.2, 0.1, 0.2, 0.7, 0.4, 0.4, 0.2};
  EXPECT_EQ(verify_greedy<double>(std::array{0, 2}, rows(p)), (Verified{2, 0}));
  EXPECT_EQ(verify_greedy<double>(std::array{0, 1}, rows(p)), (Verified{1, 2}));
  EXPECT_EQ(verify_greedy<double>(std::array{1, 2}, rows(p)), (Verified{0, 0}));
  const float never = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits{-3, never, -7, never, 12, 4};
  EXPECT_EQ(verify_greedy<float>(std::array{0}, rows(logits)), (Verified{1, 1}));
}

TEST(Verify, SamplesWithoutDrafts) {
  const std::vector<float> p{0, 1, 0};
  Rng rng(8);
  EXPECT_EQ(verify<float>({}, {}, rows(p), rng), (Verified{0, 1}));
  EXPECT_EQ(verify_certain<float>({}, rows(p), rng), (Verified{0, 1}));
}

void expect_refused(ErrorCode code, const std::vector<std::string>& parts,
                    const std::vector<std::int32_t>& drafts, const std::vector<double>& q,
                    const std::vector<double>& p) {
  Rng rng(9);
  test::expect_error(code, parts, [&] { verify<double>(drafts, rows(q), rows(p), rng); });
}

TEST(Verify, RefusesWhatIsNoDistribution) {
  const auto wrong = ErrorCode::invalid_argument;
  const std::vector<double> p = repeated(kP, 2);
  expect_refused(wrong, {"q: row 0 sums to 0.9 over 3 tokens", "0.1 from 1"}, {1}, {0.2, 0.5, 0.2},
                 p);
  expect_refused(wrong, {"p: row 0 sums to 1.1"}, {1}, kQ, repeated({0.6, 0.3, 0.2}, 2));
  expect_refused(wrong, {"p: row 1 sums to 0.5"}, {0}, kQ, {0.5, 0.3, 0.2, 0.5, 0, 0});
  expect_refused(wrong, {"q: row 0 gives token 1 the probability -0.5"}, {0}, {0.5, -0.5, 1}, p);
  expect_refused(wrong, {"token 2 the probability nan"}, {0}, {0.5, 0.5, std::nan("")}, p);
  expect_refused(wrong, {"token 0 the probability inf"}, {0},
                 {std::numeric_limits<double>::infinity(), 0, 0}, p);
  const std::vector<float> rounded{0.49999f, 0.3f, 0.2f}, cut{0.5f, 0.3f, 0.1f};
  Rng rng(10);
  EXPECT_NO_THROW(verify<float>({}, {}, rows(rounded), rng));
  test::expect_error(wrong, {"sums to 0.9", "0.0001"},
                     [&] { verify<float>({}, {}, rows(cut), rng); });
  const std::vector<double> nan{0.5, std::nan(""), 0.5};
  test::expect_error(wrong, {"row 0 gives token 1 the value nan"},
                     [&] { verify_greedy<double>({}, rows(nan)); });
}

TEST(Verify, RefusesSizesThatDoNotAgree) {
  const auto wrong = ErrorCode::invalid_argument;
  expect_refused(wrong, {"p: 3 numbers in rows of 3 tokens; 1 drafts need 2 rows"}, {1}, kQ, kP);
  expect_refused(wrong, {"q: 3 numbers", "2 drafts need 2 rows"}, {1, 1}, kQ, repeated(kP, 3));
  expect_refused(ErrorCode::out_of_range, {"draft 0 is token 3; the vocabulary has 0 to 2"}, {3},
                 kQ, repeated(kP, 2));
  expect_refused(ErrorCode::out_of_range, {"token -1"}, {-1}, kQ, repeated(kP, 2));
  Rng rng(11);
  test::expect_error(wrong, {"the vocabulary is empty"}, [&] { verify<double>({}, {}, {}, rng); });
  const std::vector<double> two{0.5, 0.5}, four{0.25, 0.25, 0.25, 0.25};
  test::expect_error(wrong, {"q: rows of 2 tokens, those of p have 4"}, [&] {
    verify<double>(std::array{1}, rows(two, 2), rows(repeated(four, 2), 4), rng);
  });
  test::expect_error(wrong, {"a row of 2 tokens beside one of 4"},
                     [&] { acceptance_rate<double>(two, four); });
}

}  // namespace
}  // namespace tessera::serving::verify_test
