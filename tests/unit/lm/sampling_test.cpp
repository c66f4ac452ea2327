// Choosing tokens: every filter against its definition, and draws against the distribution.

#include "tessera/lm/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "expect_error.h"
#include "tessera/core/error.h"
#include "tessera/core/rng.h"

namespace tessera::lm::sampling_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<double> probabilities(const std::vector<float>& logits, const SamplingOptions& options,
                                  const std::vector<std::int32_t>& text = {}) {
  Sampler sampler(options, static_cast<std::int64_t>(logits.size()));
  for (const std::int32_t token : text) sampler.see(token);
  const auto found = sampler.probabilities(logits);
  return {found.begin(), found.end()};
}

std::vector<double> softmax(const std::vector<double>& logits) {
  std::vector<double> result;
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  for (const double logit : logits) result.push_back(std::exp(logit) / sum);
  return result;
}

std::vector<std::size_t> kept(const std::vector<double>& chances) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < chances.size(); ++i) {
    if (chances[i] > 0) result.push_back(i);
  }
  return result;
}

TEST(Sampling, DividesByTheTemperature) {
  const auto found = probabilities({1, 2, -3}, {.temperature = 0.5});
  const auto expected = softmax({2, 4, -6});
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(found[i], expected[i], 1e-15);
}

TEST(Sampling, TakesTheFirstOfTheMostLikelyAtTemperatureZero) {
  EXPECT_THAT(probabilities({1, 7, 7, 3}, {.temperature = 0}), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(probabilities({-1e30f, -2e30f}, {.temperature = 0}), ElementsAre(1, 0));
}

TEST(Sampling, StandsSmallTemperaturesAndLargeLogits) {
  EXPECT_THAT(probabilities({1, 2, 1.5f}, {.temperature = 1e-300}), ElementsAre(0, 1, 0));
  EXPECT_THAT(probabilities({3e38f, -3e38f}, {.temperature = 1e-6}), ElementsAre(1, 0));
}

TEST(Sampling, PenalisesEachTokenOfTheTextOnce) {
  // Hugging Face's RepetitionPenaltyLogitsProcessor: negative ones multiplied, others divided.
  const auto found = probabilities({1, -1, 2, 0.5f}, {.repetition_penalty = 1.25}, {0, 1, 1, 1});
  const auto expected = softmax({1 / 1.25f, -1.25, 2, 0.5});  // logits are f32
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(found[i], expected[i], 1e-15);
}

TEST(Sampling, PenalisesBeforeEverythingElse) {
  EXPECT_THAT(probabilities({3, 2.9f, 1}, {.temperature = 0, .repetition_penalty = 2}, {0}),
              ElementsAre(0, 1, 0));
  EXPECT_THAT(kept(probabilities({3, 2, 1.9f}, {.top_k = 2, .repetition_penalty = 4}, {0})),
              ElementsAre(1, 2));
}

TEST(Sampling, KeepsTheTopKAndTheirEquals) {
  const std::vector<float> logits{1, 5, 3, 3, 2};
  EXPECT_THAT(kept(probabilities(logits, {.top_k = 1})), ElementsAre(1));
  EXPECT_THAT(kept(probabilities(logits, {.top_k = 2})), ElementsAre(1, 2, 3));
  EXPECT_THAT(kept(probabilities(logits, {.top_k = 3})), ElementsAre(1, 2, 3));
  for (const std::int64_t k : {0, 5, 6, 1'000'000'000}) {
    EXPECT_EQ(kept(probabilities(logits, {.top_k = k})).size(), 5u) << k;
  }
}

TEST(Sampling, KeepsTheTopPByTheSumBeforeEach) {
  std::vector<float> logits;
  for (const double p : {0.1, 0.4, 0.2, 0.3}) logits.push_back(static_cast<float>(std::log(p)));
  EXPECT_THAT(kept(probabilities(logits, {.top_p = 0})), ElementsAre(1));
  EXPECT_THAT(kept(probabilities(logits, {.top_p = 1e-12})), ElementsAre(1));
  EXPECT_THAT(kept(probabilities(logits, {.top_p = 0.39})), ElementsAre(1));
  EXPECT_THAT(kept(probabilities(logits, {.top_p = 0.41})), ElementsAre(1, 3));
  EXPECT_THAT(kept(probabilities(logits, {.top_p = 0.69})), ElementsAre(1, 3));
  EXPECT_THAT(kept(probabilities(logits, {.top_p = 0.71})), ElementsAre(1, 2, 3));
  EXPECT_THAT(kept(probabilities(logits, {.top_p = 1})), ElementsAre(0, 1, 2, 3));
  const auto found = probabilities(logits, {.top_p = 0.5});
  EXPECT_NEAR(found[1], 4.0 / 7, 1e-7);
  EXPECT_NEAR(found[3], 3.0 / 7, 1e-7);
}

TEST(Sampling, TakesEqualTokensInOrderForTopP) {
  EXPECT_THAT(kept(probabilities({0, 0, 0, 0}, {.top_p = 0.3})), ElementsAre(0, 1));
}

TEST(Sampling, TakesTopPOfWhatTopKLeft) {
  std::vector<float> logits;
  for (const double p : {0.4, 0.3, 0.2, 0.1}) logits.push_back(static_cast<float>(std::log(p)));
  // Of { 4/7, 3/7 } the first has less than 0.55 before it, the second has not.
  EXPECT_THAT(kept(probabilities(logits, {.top_k = 2, .top_p = 0.55})), ElementsAre(0));
}

TEST(Sampling, LeavesOutWhatIsImpossible) {
  const float never = -std::numeric_limits<float>::infinity();
  EXPECT_THAT(kept(probabilities({never, 1, never, 2}, {.top_k = 3, .top_p = 0.999999})),
              ElementsAre(1, 3));
}

TEST(Sampling, RefusesLogitsThatAreNoNumbers) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto message = [](const std::vector<float>& logits, double temperature) -> std::string {
    try {
      probabilities(logits, {.temperature = temperature});
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  for (const double temperature : {0.0, 1.0}) {
    EXPECT_THAT(message({1, std::nanf(""), 2}, temperature), HasSubstr("token 1 of 3 got NaN"));
    EXPECT_THAT(message({1, 2, inf}, temperature), HasSubstr("token 2 of 3 got infinity"));
    EXPECT_THAT(message({-inf, -inf}, temperature), HasSubstr("no token can follow"));
  }
}

// Pearson's statistic of the draws of steps 0 ... against expected probabilities, and its degrees
// of freedom.
struct ChiSquare {
  double statistic = 0;
  int degrees = -1;
};

ChiSquare chi_square(const std::vector<float>& logits, const SamplingOptions& options,
                     const std::vector<double>& expected, int draws) {
  Sampler sampler(options, static_cast<std::int64_t>(logits.size()));
  std::vector<double> counts(logits.size());
  for (int step = 0; step < draws; ++step) {
    counts[static_cast<std::size_t>(sampler.choose(logits, step))] += 1;
  }
  ChiSquare found;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (expected[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i << " was left out";
      continue;
    }
    const double mean = draws * expected[i];
    found.statistic += (counts[i] - mean) * (counts[i] - mean) / mean;
    ++found.degrees;
  }
  return found;
}

// Wilson and Hilferty (1931): the cube root of chi-square over its degrees is about normal.
double normal_score(const ChiSquare& found) {
  const double n = found.degrees, spread = 2 / (9 * n);
  return (std::cbrt(found.statistic / n) - (1 - spread)) / std::sqrt(spread);
}

TEST(Sampling, DrawsByTheDistribution) {
  const std::vector<double> scores{0.5, 2, -1, 1.5, 0, 1, 2.5, -0.5};
  const std::vector<float> logits(scores.begin(), scores.end());
  std::vector<double> cool, top3(scores.size());
  for (const double score : scores) cool.push_back(score / 0.7);
  double sum = 0;
  for (const std::size_t i : {6u, 1u, 3u}) sum += top3[i] = std::exp(scores[i]);
  for (double& chance : top3) chance /= sum;
  for (const std::uint64_t seed : {0, 1, 2, 12345}) {
    SCOPED_TRACE(seed);
    EXPECT_LT(normal_score(chi_square(logits, {.seed = seed}, softmax(scores), 20000)), 4);
    EXPECT_LT(
        normal_score(chi_square(logits, {.temperature = 0.7, .seed = seed}, softmax(cool), 20000)),
        4);
    EXPECT_LT(normal_score(chi_square(logits, {.top_k = 3, .seed = seed}, top3, 20000)), 4);
  }
}

// The definition, in double and by sorting: what `probabilities` and `choose` are measured against.
std::vector<double> by_definition(const std::vector<float>& logits,
                                  const SamplingOptions& options) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  std::size_t count = order.size();
  if (options.top_k > 0 && options.top_k < static_cast<std::int64_t>(count)) {
    const float kth = logits[order[static_cast<std::size_t>(options.top_k - 1)]];
    while (logits[order[count - 1]] < kth) --count;
  }
  std::vector<double> weights(logits.size());
  double total = 0, sum = 0, left = 0;
  for (std::size_t i = 0; i < count; ++i) {
    weights[order[i]] =
        std::exp((double{logits[order[i]]} - logits[order[0]]) / options.temperature);
    total += weights[order[i]];
  }
  for (std::size_t i = 0; i < count; ++i) {
    double& weight = weights[order[i]];
    if (options.top_p < 1 && i > 0 && sum >= options.top_p * total) {
      weight = 0;
    } else {
      sum += weight;
    }
  }
  for (double& weight : weights) left += weight;
  for (double& weight : weights) weight /= left;
  return weights;
}

// A vocabulary of every length beside the sizes of blocks and rows; scores with ties and -infinity.
TEST(Sampling, ChoosesByTheDefinitionInLargeVocabularies) {
  Rng rng(20261126);
  int near = 0;
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(trial);
    const auto size = static_cast<std::size_t>(1 + rng.uniform() * (trial % 3 == 0 ? 70 : 3000));
    std::vector<float> logits(size);
    const double spread = std::exp(6 * rng.uniform() - 2);
    for (float& logit : logits) {
      logit = static_cast<float>(spread * (rng.uniform() + rng.uniform() - 1));
      if (trial % 2 == 0) logit = std::round(logit);
      if (trial % 5 == 0 && rng.uniform() < 0.3) logit = -std::numeric_limits<float>::infinity();
    }
    logits[static_cast<std::size_t>(rng.uniform() * static_cast<double>(size))] = 1;
    SamplingOptions options{.temperature = std::exp(4 * rng.uniform() - 3),
                            .seed = static_cast<std::uint64_t>(trial)};
    if (trial % 4 >= 2) options.top_k = static_cast<std::int64_t>(1 + rng.uniform() * 200);
    if (trial % 2 == 1) options.top_p = rng.uniform();
    const std::vector<double> expected = by_definition(logits, options);
    Sampler sampler(options, static_cast<std::int64_t>(size));
    const std::vector<double> found = sampler.probabilities(logits);
    // Which of two equally likely tokens is the last one that top_p keeps may hang on rounding.
    double difference = 0;
    for (std::size_t i = 0; i < size; ++i) difference += std::abs(found[i] - expected[i]);
    if (difference > 1e-9) ++near;
    for (int step = 0; step < 20; ++step) {
      const auto token = static_cast<std::size_t>(sampler.choose(logits, step));
      EXPECT_GT(found[token], 0);
      const double draw =
          Rng(Rng(options.seed).next() + static_cast<std::uint64_t>(step)).uniform();
      double below = 0;
      for (std::size_t i = 0; i < token; ++i) below += found[i];
      EXPECT_GT(draw, below - 1e-5);
      EXPECT_LT(draw, below + found[token] + 1e-5);
    }
  }
  EXPECT_LE(near, 2);
}

// vLLM's order: bias, stop tokens, repetition penalty, frequency and presence penalty.
TEST(Sampling, AdjustsLogitsByTheDefinition) {
  Rng rng(20261127);
  for (int trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE(trial);
    const auto pick = [&](int count) { return static_cast<std::int32_t>(rng.uniform() * count); };
    const int size = 5 + pick(400);
    std::vector<float> logits(static_cast<std::size_t>(size));
    for (float& logit : logits) logit = static_cast<float>(8 * rng.uniform() - 4);
    Adjustments asked{.min_tokens = pick(3),
                      .frequency_penalty = pick(2) * (4 * rng.uniform() - 2),
                      .presence_penalty = pick(2) * (4 * rng.uniform() - 2)};
    for (int i = pick(3); i > 0; --i)
      asked.bias.emplace_back(pick(size), static_cast<float>(20 * rng.uniform() - 10));
    for (int i = pick(3); i > 0; --i) asked.stop_tokens.push_back(pick(size));
    const SamplingOptions options{.temperature = 0.5 + rng.uniform(),
                                  .repetition_penalty = pick(2) == 0 ? 1 : 1.3};
    Sampler sampler(options, size, asked);
    std::vector<int> prompt(logits.size()), generated(logits.size());
    for (int i = 0; i < 6; ++i) {
      const std::int32_t seen = pick(size), added = pick(size / 2 + 1);
      sampler.see(seen);
      sampler.add(added);
      ++prompt[static_cast<std::size_t>(seen)];
      ++generated[static_cast<std::size_t>(added)];
    }
    const int step = pick(3);
    std::vector<double> expected;
    for (int i = 0; i < size; ++i) {
      const auto at = static_cast<std::size_t>(i);
      float score = logits[at];
      for (const auto& [token, number] : asked.bias) score += token == i ? number : 0;
      const bool stop = std::ranges::count(asked.stop_tokens, i) > 0;
      if (stop && step < asked.min_tokens) score = -std::numeric_limits<float>::infinity();
      const auto penalty = static_cast<float>(options.repetition_penalty);
      if (prompt[at] + generated[at] > 0) score = score < 0 ? score * penalty : score / penalty;
      score -= static_cast<float>(asked.frequency_penalty) * static_cast<float>(generated[at]);
      if (generated[at] > 0) score -= static_cast<float>(asked.presence_penalty);
      expected.push_back(double{score} / options.temperature);
    }
    expected = softmax(expected);
    const auto found = sampler.probabilities(logits, step);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12);
  }
}

TEST(Sampling, ForbidsStopTokensUntilThereAreEnough) {
  Sampler sampler({.temperature = 0}, 3, {.min_tokens = 2, .stop_tokens = {1, 2}});
  const std::vector<float> logits{0, 5, 9};
  EXPECT_EQ(sampler.choose(logits, 0), 0);
  EXPECT_EQ(sampler.choose(logits, 1), 0);
  EXPECT_EQ(sampler.choose(logits, 2), 2);
  Sampler all({.temperature = 0}, 2, {.min_tokens = 1, .stop_tokens = {0, 1}});
  test::expect_error(ErrorCode::invalid_argument, {"no token can follow"}, [&] {
    all.choose(std::vector<float>{1, 2}, 0);
  });
}

TEST(Sampling, RefusesAdjustmentsThatCannotBe) {
  const auto make = [](Adjustments asked) { Sampler({}, 10, std::move(asked)); };
  test::expect_error(ErrorCode::out_of_range, {"bias: token 10 is not in the vocabulary, [0, 10)"},
                     [&] {
                       make({.bias = {{10, 1.0f}}});
                     });
  test::expect_error(ErrorCode::out_of_range, {"stop_tokens: token -1"},
                     [&] { make({.stop_tokens = {-1}}); });
  test::expect_error(ErrorCode::invalid_argument, {"bias: inf is no number"}, [&] {
    make({.bias = {{1, std::numeric_limits<float>::infinity()}}});
  });
  test::expect_error(ErrorCode::invalid_argument, {"presence_penalty: nan"},
                     [&] { make({.presence_penalty = std::nan("")}); });
}

TEST(Sampling, ChoosesForASequenceAsAlone) {
  Rng rng(3);
  constexpr std::int64_t kSize = 5000;
  std::vector<std::vector<float>> logits(9, std::vector<float>(kSize));
  std::vector<Sampler> samplers;
  std::vector<Choice> choices;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    for (float& logit : logits[i]) logit = static_cast<float>(6 * rng.uniform());
    samplers.emplace_back(SamplingOptions{.top_p = i % 2 == 0 ? 1 : 0.9, .seed = i}, kSize);
  }
  for (std::size_t i = 0; i < logits.size(); ++i)
    choices.push_back({&samplers[i], logits[i], static_cast<std::int64_t>(i)});
  choose(choices, 4);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    Sampler alone({.top_p = i % 2 == 0 ? 1 : 0.9, .seed = i}, kSize);
    EXPECT_EQ(choices[i].token, alone.choose(logits[i], static_cast<std::int64_t>(i)));
  }
  logits[7][3] = std::nanf("");
  logits[4][2] = std::nanf("");
  test::expect_error(ErrorCode::invalid_argument, {"token 2 of 5000 got NaN"},
                     [&] { choose(choices, 4); });
}

TEST(Sampling, TellsWhatTheModelSays) {
  Rng rng(4);
  std::vector<float> logits(1000);
  for (float& logit : logits) logit = static_cast<float>(std::round(20 * rng.uniform()));
  logits[5] = -std::numeric_limits<float>::infinity();
  const auto expected = softmax({logits.begin(), logits.end()});
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [](std::int32_t id) { return static_cast<std::size_t>(id); };
  std::ranges::stable_sort(
      order, [&](std::int32_t a, std::int32_t b) { return logits[at(a)] > logits[at(b)]; });
  for (const std::int64_t count : {0, 1, 20, 1000}) {
    const LogProbabilities found = log_probabilities(logits, 17, count);
    EXPECT_NEAR(found.chosen, std::log(expected[17]), 1e-6);
    ASSERT_EQ(std::ssize(found.top), count);
    for (std::size_t i = 0; i < found.top.size(); ++i) {
      const auto& [token, log_probability] = found.top[i];
      EXPECT_EQ(token, order[i]);
      if (token == 5) continue;
      EXPECT_NEAR(log_probability, std::log(expected[at(token)]), 1e-6);
    }
  }
  EXPECT_EQ(log_probabilities(logits, 5, 0).chosen, -std::numeric_limits<double>::infinity());
  for (const auto& [token, count] : {std::pair{-1, 0}, {1000, 0}, {0, 1001}, {0, -1}}) {
    test::expect_error(ErrorCode::out_of_range, {"in a vocabulary of 1000"},
                       [&] { log_probabilities(logits, token, count); });
  }
  logits[3] = std::nanf("");
  test::expect_error(ErrorCode::invalid_argument, {"token 3 of 1000 got NaN"},
                     [&] { log_probabilities(logits, 0, 1); });
}

TEST(Sampling, NoticesAnotherDistribution) {
  const std::vector<float> logits{0, 0, 0, 0};
  EXPECT_GT(normal_score(chi_square(logits, {}, {0.27, 0.23, 0.25, 0.25}, 20000)), 4);
}

TEST(Sampling, DrawsOfOneStepDifferBetweenSeeds) {
  const std::vector<float> logits(1000, 0);
  std::vector<double> low(10), pairs(100);
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    Sampler sampler({.seed = seed}, 1000);
    const int first = sampler.choose(logits, 0) / 100, second = sampler.choose(logits, 1) / 100;
    pairs[static_cast<std::size_t>(first * 10 + second)] += 1;
  }
  ChiSquare found;
  for (const double count : pairs) found.statistic += (count - 200) * (count - 200) / 200;
  found.degrees = 99;
  EXPECT_LT(normal_score(found), 4);
}

TEST(Sampling, AStepDrawsTheSameWhateverWasDrawnBefore) {
  const std::vector<float> logits(500, 0);
  Sampler one({.seed = 9}, 500), other({.seed = 9}, 500);
  for (int step = 0; step < 20; ++step) one.choose(logits, step);
  EXPECT_EQ(one.choose(logits, 7), other.choose(logits, 7));
}

}  // namespace
}  // namespace tessera::lm::sampling_test
