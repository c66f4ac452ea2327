// What speculation is worth, and how many drafts the simulator lets pass.

#include "tessera/serving/gain.h"

#include <cmath>
#include <limits>

#include "chi_square.h"
#include "expect_error.h"
#include "tessera/serving/accepted_drafts.h"

namespace tessera::serving::gain_test {
namespace {

using testing::ElementsAre;

TEST(SpeculationGain, ExpectsALeadingTokenAndPowersOfTheAcceptance) {
  // Of the lecture's example, acceptance .7: (1 - .7^5) / .3.
  EXPECT_NEAR(expected_tokens(0.7, 4), 2.7731, 1e-12);
  EXPECT_EQ(expected_tokens(0.7, 0), 1);
  EXPECT_EQ(expected_tokens(0, 4), 1);
  EXPECT_EQ(expected_tokens(1, 4), 5);
  EXPECT_NEAR(expected_tokens(1 - 1e-12, 4), 5, 2e-11);  // where the quotient is all rounding
}

TEST(SpeculationGain, MeansOneAndTheSumOfTheRates) {
  EXPECT_NEAR(mean_tokens(cumulative_rates(std::vector{0.7}, 4, "a")), expected_tokens(0.7, 4),
              1e-12);
  EXPECT_NEAR(mean_tokens(std::vector{0.7, 0.5, 0.4, 0.3}), 2.9, 1e-12);
  EXPECT_EQ(mean_tokens({}), 1);
}

// t_f 6, t_c .02, d_f .4, d_c .002 ms and acceptance .7: batches and speed-ups by hand.
TEST(SpeculationGain, BreaksEvenWhereTheFormulaSays) {
  const SpeculationTimes times{6e-3, 0.02e-3, 0.4e-3, 0.002e-3};
  const struct {
    std::int64_t num_drafts;
    double batch, speed_up_alone;
  } cases[] = {{1, 475, 1.59}, {3, 226, 2.09}, {5, 136, 2.18}};
  for (const auto& c : cases) {
    const double tokens = expected_tokens(0.7, c.num_drafts);
    const double batch = break_even_batch(tokens, c.num_drafts, times);
    EXPECT_NEAR(batch, c.batch, 0.5);
    EXPECT_NEAR(speed_up(tokens, c.num_drafts, 1, times), c.speed_up_alone, 0.005);
    EXPECT_NEAR(speed_up(tokens, c.num_drafts, batch, times), 1, 1e-12);
    EXPECT_GT(speed_up(tokens, c.num_drafts, batch * 0.99, times), 1);
    EXPECT_LT(speed_up(tokens, c.num_drafts, batch * 1.01, times), 1);
  }
}

TEST(SpeculationGain, NeverPaysOrAlwaysDoes) {
  const SpeculationTimes slow_draft{1e-3, 0.02e-3, 5e-3, 0};
  EXPECT_EQ(break_even_batch(expected_tokens(0.9, 2), 2, slow_draft), 0);
  EXPECT_EQ(break_even_batch(expected_tokens(0, 2), 2, {1e-3, 1e-6, 0, 0}), 0);
  const double never = std::numeric_limits<double>::infinity();
  EXPECT_EQ(break_even_batch(expected_tokens(1, 2), 2, {1e-3, 1e-6, 0, 0}), never);
  EXPECT_EQ(break_even_batch(expected_tokens(0.5, 2), 2, {1e-3, 0, 0, 0}), never);
}

TEST(AcceptedDrafts, DependsOnSeedRequestAndStepAlone) {
  const std::vector<double> rates{0.7, 0.5, 0.4, 0.3};
  std::vector<std::int64_t> there, back;
  for (std::int64_t i = 0; i < 100; ++i) there.push_back(accepted_drafts(5, i / 10, i % 10, rates));
  for (std::int64_t i = 99; i >= 0; --i) back.push_back(accepted_drafts(5, i / 10, i % 10, rates));
  std::reverse(back.begin(), back.end());
  EXPECT_EQ(there, back);
  EXPECT_NE(draw_at(5, 1, 2), draw_at(5, 2, 1));
  EXPECT_NE(draw_at(5, 1, 2), draw_at(6, 1, 2));
  // Shorter rates of the same step: the first ones mean what they meant.
  for (std::int64_t i = 0; i < 100; ++i) {
    const auto all = accepted_drafts(5, 0, i, rates);
    EXPECT_EQ(accepted_drafts(5, 0, i, {rates.data(), 2}), std::min<std::int64_t>(all, 2));
  }
}

TEST(AcceptedDrafts, IsCertainAtTheEnds) {
  for (std::int64_t step = 0; step < 1000; ++step) {
    EXPECT_EQ(accepted_drafts(1, 0, step, std::vector{1.0, 1.0, 0.0}), 2);
    EXPECT_EQ(accepted_drafts(1, 0, step, {}), 0);
  }
}

// Along requests, along steps, and both together: neighbours must not know of each other.
TEST(AcceptedDrafts, HasTheRatesOverAMillionDraws) {
  const std::vector<double> rates{0.7, 0.5, 0.4, 0.3};
  const std::vector<double> law{0.3, 0.2, 0.1, 0.1, 0.3};
  std::vector<std::int64_t> by_step(5), by_request(5), both(25);
  std::vector<double> law_of_both;
  for (const double a : law) {
    for (const double b : law) law_of_both.push_back(a * b);
  }
  for (std::int64_t i = 0; i < 1'000'000; ++i) {
    ++by_step[static_cast<std::size_t>(accepted_drafts(7, 3, i, rates))];
    ++by_request[static_cast<std::size_t>(accepted_drafts(7, i, 3, rates))];
    const auto here = accepted_drafts(8, i / 1000, 2 * (i % 1000), rates);
    const auto next = accepted_drafts(8, i / 1000, 2 * (i % 1000) + 1, rates);
    ++both[static_cast<std::size_t>(5 * here + next)];
  }
  EXPECT_LT(test::chi_square(by_step, law), test::chi_square_bound(4));
  EXPECT_LT(test::chi_square(by_request, law), test::chi_square_bound(4));
  EXPECT_LT(test::chi_square(both, law_of_both), test::chi_square_bound(24));
}

TEST(AcceptedDrafts, RefusesRatesThatAreNone) {
  EXPECT_THAT(cumulative_rates(std::vector{0.5}, 3, "a"), ElementsAre(0.5, 0.25, 0.125));
  EXPECT_THAT(cumulative_rates(std::vector{0.5, 0.25}, 1, "a"), ElementsAre(0.5));
  const auto refused = [](std::vector<double> rates, std::int64_t drafts, ErrorCode code,
                          std::vector<std::string> parts) {
    test::expect_error(code, parts, [&] { cumulative_rates(rates, drafts, "engine.acceptance"); });
  };
  refused({}, 1, ErrorCode::invalid_argument, {"engine.acceptance", "no rate"});
  refused({0.5, 0.4}, 3, ErrorCode::invalid_argument, {"2 rates for 3 drafts"});
  refused({1.5}, 1, ErrorCode::out_of_range, {"rate 1 is 1.5", "[0, 1]"});
  refused({std::nan("")}, 1, ErrorCode::out_of_range, {"rate 1 is nan"});
  refused({0.5, 0.6}, 2, ErrorCode::out_of_range, {"rate 2 is 0.6, above the 0.5"});
}

}  // namespace
}  // namespace tessera::serving::gain_test
