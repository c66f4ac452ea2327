// Zero-shot accuracy against the harness's definitions, written out over a model in closed form.

#include "tessera/lm/zero_shot.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "expect_error.h"
#include "fake_language_model.h"
#include "tessera/core/rng.h"

namespace tessera::lm::zero_shot_test {
namespace {

using fakes::FakeModel;
using tessera::test::expect_error;
using Ids = std::vector<std::int32_t>;

/// Log-likelihood of `continuation` behind `context`, all of which fits the model.
double log_likelihood(const FakeModel& model, const Ids& context, const Ids& continuation) {
  Ids all = context;
  double sum = 0;
  for (const std::int32_t token : continuation) {
    sum -= model.loss_after(all, token);
    all.push_back(token);
  }
  return sum;
}

ZeroShotItem item_of(std::string context, std::vector<std::string> continuations,
                     std::size_t answer) {
  return {std::move(context), std::move(continuations), answer, "file:1"};
}

std::vector<ZeroShotItem> random_items(std::int64_t count, std::uint64_t seed) {
  Rng rng(seed);
  const auto words = [&](std::int64_t most) {
    std::string text;
    for (std::int64_t i = rng.integer(1, most); i > 0; --i) {
      if (!text.empty()) text += ' ';
      for (std::int64_t j = rng.integer(1, 6); j > 0; --j)
        text += static_cast<char>('a' + rng.integer(0, 25));
    }
    return text;
  };
  std::vector<ZeroShotItem> items;
  for (std::int64_t i = 0; i < count; ++i) {
    ZeroShotItem item = item_of("Question: " + words(20) + "\nAnswer:", {}, 0);
    for (std::int64_t j = rng.integer(2, 5); j > 0; --j)
      item.continuations.push_back(" " + words(4));
    item.answer = static_cast<std::size_t>(
        rng.integer(0, static_cast<std::int64_t>(item.continuations.size()) - 1));
    items.push_back(item);
  }
  return items;
}

TEST(ZeroShot, AnswersByLogLikelihoodAndPerCharacter) {
  const FakeModel model;
  ZeroShotRequest request{.task = ZeroShotTask::arc_easy, .items = random_items(40, 1)};
  const ZeroShotResult found = measure_zero_shot(model, request);
  ASSERT_EQ(found.num_items, 40);
  double right = 0, right_norm = 0;
  const fakes::FakeTokens tokens;
  for (std::size_t i = 0; i < 40; ++i) {
    const ZeroShotItem& item = request.items[i];
    const Ids context = tokens.encode(item.context, true);
    std::size_t best = 0, best_norm = 0;
    std::vector<double> sums, per_character;
    for (const std::string& choice : item.continuations) {
      sums.push_back(log_likelihood(model, context, tokens.encode(choice, false)));
      per_character.push_back(sums.back() / static_cast<double>(choice.size() - 1));
      EXPECT_NEAR(found.answers[i].log_likelihoods[sums.size() - 1], sums.back(), 1e-4);
      if (sums.back() > sums[best]) best = sums.size() - 1;
      if (per_character.back() > per_character[best_norm]) best_norm = sums.size() - 1;
    }
    EXPECT_EQ(found.answers[i].is_right, best == item.answer) << i;
    EXPECT_EQ(found.answers[i].is_right_norm, best_norm == item.answer) << i;
    right += best == item.answer ? 1 : 0;
    right_norm += best_norm == item.answer ? 1 : 0;
  }
  EXPECT_GT(right, 0);
  EXPECT_NE(right, right_norm);
  EXPECT_DOUBLE_EQ(found.accuracy, right / 40);
  EXPECT_DOUBLE_EQ(found.accuracy_norm.value(), right_norm / 40);
  // Of ones and zeros, the sample's variance is p (1 - p) n / (n - 1).
  const double p = right / 40;
  EXPECT_NEAR(found.standard_error.value(), std::sqrt(p * (1 - p) / 39), 1e-12);
  EXPECT_FALSE(found.perplexity);
}

TEST(ZeroShot, DoesNotDependOnTheBatch) {
  ZeroShotRequest request{.task = ZeroShotTask::piqa, .items = random_items(30, 2)};
  const ZeroShotResult expected = measure_zero_shot(FakeModel(), request);
  for (const std::int64_t batch : {1, 100, 333, 100'000}) {
    const FakeModel model({.num_threads = 2});
    request.batch_tokens = batch;
    const ZeroShotResult found = measure_zero_shot(model, request);
    EXPECT_EQ(found.accuracy, expected.accuracy);
    for (std::size_t i = 0; i < request.items.size(); ++i)
      EXPECT_EQ(found.answers[i].log_likelihoods, expected.answers[i].log_likelihoods) << batch;
  }
}

TEST(ZeroShot, RunsAContextOnceForAllItsChoices) {
  const FakeModel model;
  const std::string context(100, 'x');
  measure_zero_shot(model, {.task = ZeroShotTask::arc_easy,
                            .items = {item_of(context, {" A", " B", " C", " D"}, 0)}});
  // 101 tokens with the first, of which 96 are whole blocks; 5 and a blank for each choice.
  EXPECT_EQ(model.counts().tokens, 96 + 4 * 6);
}

TEST(ZeroShot, TakesTheFirstOfEquals) {
  const FakeModel uniform({.sharpness = 0});
  // Tokens: " ab" is two, " A" two, " a" one. Per character " ab" and " a" are equal.
  const auto measure = [&](std::vector<std::string> choices, std::size_t answer) {
    return measure_zero_shot(uniform, {.task = ZeroShotTask::arc_easy,
                                       .items = {item_of("Q", std::move(choices), answer)}});
  };
  EXPECT_EQ(measure({" ab", " cd"}, 0).accuracy, 1);
  EXPECT_EQ(measure({" ab", " cd"}, 1).accuracy, 0);
  EXPECT_EQ(measure({" ab", " a"}, 1).accuracy, 1);
  EXPECT_EQ(measure({" ab", " a"}, 0).accuracy_norm.value(), 1);
  EXPECT_FALSE(measure({" ab", " a"}, 0).standard_error);
}

TEST(ZeroShot, CountsCharactersNotBytes) {
  // Each byte of a character is a token. The second has more characters to share its loss, but no
  // more bytes.
  const FakeModel uniform({.sharpness = 0});
  const ZeroShotResult found = measure_zero_shot(
      uniform, {.task = ZeroShotTask::arc_easy, .items = {item_of("Q", {" éé", " ABCD"}, 1)}});
  EXPECT_EQ(found.accuracy, 0);  // equal
  EXPECT_EQ(found.accuracy_norm.value(), 1);
}

TEST(ZeroShot, MovesBlanksAtTheContextsEndToTheContinuation) {
  const FakeModel model;
  const fakes::FakeTokens tokens;
  const ZeroShotResult found = measure_zero_shot(
      model, {.task = ZeroShotTask::lambada, .items = {item_of("so ", {" it"}, 0)}});
  EXPECT_NEAR(found.answers[0].log_likelihoods[0],
              log_likelihood(model, tokens.encode("so", true), tokens.encode("  it", false)), 1e-5);
}

TEST(ZeroShot, LeavesTheFirstTokenOutWhereAsked) {
  const FakeModel model;
  const ZeroShotResult found = measure_zero_shot(
      model,
      {.task = ZeroShotTask::lambada, .items = {item_of("so", {" it"}, 0)}, .special = false});
  EXPECT_NEAR(found.answers[0].log_likelihoods[0],
              log_likelihood(model, {'s', 'o'}, {fakes::kBlankA + 'i' - 'a', 't'}), 1e-5);
}

TEST(ZeroShot, BeginsAnEmptyContextWithTheFirstToken) {
  const FakeModel model;
  const ZeroShotResult found =
      measure_zero_shot(model, {.task = ZeroShotTask::lambada, .items = {item_of("", {" it"}, 0)}});
  EXPECT_NEAR(found.answers[0].log_likelihoods[0],
              log_likelihood(model, {fakes::kBos}, {fakes::kBlankA + 'i' - 'a', 't'}), 1e-5);
}

TEST(ZeroShot, DropsTheBeginningOfAContextThatIsTooLong) {
  const FakeModel model({.max_context_tokens = 20});
  const std::string context = "abcdefghijklmnopqrstuvwxyz";
  const ZeroShotResult found = measure_zero_shot(
      model, {.task = ZeroShotTask::arc_easy, .items = {item_of(context, {" XY", " Z"}, 0)}});
  // The last 21 tokens of context and choice, of which the last is only predicted.
  const Ids all = fakes::FakeTokens().encode(context, true);
  const std::vector<Ids> choices = {{' ', 'X', 'Y'}, {' ', 'Z'}};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto kept = static_cast<std::ptrdiff_t>(21 - choices[i].size());
    EXPECT_NEAR(found.answers[0].log_likelihoods[i],
                log_likelihood(model, {all.end() - kept, all.end()}, choices[i]), 1e-5);
  }
}

TEST(ZeroShot, OfLambadaIsGreedy) {
  const FakeModel model;
  const fakes::FakeTokens tokens;
  // Where the likeliest token is a word, that word is asked for, and one that is not likeliest.
  ZeroShotRequest request{.task = ZeroShotTask::lambada, .items = {}};
  double right = 0;
  std::vector<double> losses;
  const auto ask = [&](const std::string& context, std::int32_t target) {
    request.items.push_back(
        item_of(context, {std::string(" ") + static_cast<char>('a' + target - fakes::kBlankA)}, 0));
    losses.push_back(model.loss_after(tokens.encode(context, true), target));
  };
  for (int i = 0; i < 60; ++i) {
    const std::string context = fmt::format("Context {}", i);
    const std::vector<float> logits = model.logits_after(tokens.encode(context, true));
    const auto best =
        static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    if (best < fakes::kBlankA) continue;
    ask(context, best);
    right += 1;
    if (right != 1) ask(context, best == fakes::kBlankA ? best + 1 : fakes::kBlankA);
  }
  ASSERT_GT(right, 3);
  const auto count = static_cast<double>(losses.size());
  double loss = 0, squares = 0;
  for (const double one : losses) loss += one / count;
  for (const double one : losses) squares += (one - loss) * (one - loss);
  const ZeroShotResult found = measure_zero_shot(model, request);
  EXPECT_DOUBLE_EQ(found.accuracy, right / count);
  EXPECT_NEAR(found.perplexity.value(), std::exp(loss), 1e-4 * std::exp(loss));
  EXPECT_NEAR(found.perplexity_standard_error.value(),
              std::exp(loss) * std::sqrt(squares / (count - 1) / count), 1e-4 * std::exp(loss));
  EXPECT_FALSE(found.accuracy_norm);
}

TEST(ZeroShot, StopsWithWhatIsDone) {
  const FakeModel model;
  ZeroShotRequest request{.task = ZeroShotTask::arc_easy, .items = random_items(20, 3)};
  const ZeroShotResult whole = measure_zero_shot(model, request);
  std::atomic<bool> stop = false;
  request.stop = &stop;
  request.batch_tokens = 1;
  request.progress = [&](std::int64_t done, std::int64_t total) {
    EXPECT_EQ(total, 20);
    stop = done == 7;
  };
  const ZeroShotResult found = measure_zero_shot(model, request);
  EXPECT_TRUE(found.partial);
  ASSERT_EQ(found.num_items, 7);
  double right = 0;
  for (int i = 0; i < 7; ++i) right += whole.answers[static_cast<std::size_t>(i)].is_right ? 1 : 0;
  EXPECT_DOUBLE_EQ(found.accuracy, right / 7);
  expect_error(ErrorCode::interrupted, {"before the first item"},
               [&] { measure_zero_shot(model, request); });
}

TEST(ZeroShot, RefusesWhatCannotBeAnswered) {
  const FakeModel model({.max_context_tokens = 20, .broken_token = '!'});
  const auto refused = [&](const std::vector<std::string>& parts, ZeroShotItem item,
                           ErrorCode code = ErrorCode::invalid_argument) {
    expect_error(code, parts, [&] {
      measure_zero_shot(model, {.task = ZeroShotTask::arc_easy, .items = {std::move(item)}});
    });
  };
  expect_error(ErrorCode::invalid_argument, {"items", "none"},
               [&] { measure_zero_shot(model, {}); });
  refused({"file:1", "1 continuations"}, item_of("x", {" a"}, 0));
  refused({"file:1", "a blank and a text"}, item_of("x", {"a", " b"}, 0));
  refused({"file:1", "answer 2 of 2"}, item_of("x", {" a", " b"}, 2), ErrorCode::out_of_range);
  refused({"file:1", "21 tokens", "20"}, item_of("x", {" a", " b" + std::string(20, 'z')}, 0));
  refused({"not finite"}, item_of("x!", {" a", " b"}, 0));
  expect_error(ErrorCode::invalid_argument, {"file:1", "2 continuations", "lambada"}, [&] {
    measure_zero_shot(model, {.items = {item_of("x", {" a", " b"}, 0)}});
  });
}

}  // namespace
}  // namespace tessera::lm::zero_shot_test
