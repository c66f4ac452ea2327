// Perplexity and divergence against sums over a model that is known in closed form.

#include "tessera/lm/perplexity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "expect_error.h"
#include "fake_language_model.h"
#include "means.h"
#include "scores.h"
#include "tessera/core/rng.h"

namespace tessera::lm::perplexity_test {
namespace {

using fakes::FakeModel;
using fakes::kVocab;
using fakes::random_tokens;
using tessera::test::expect_error;

PerplexityRequest request_of(std::vector<std::int32_t> tokens, std::int64_t context) {
  PerplexityRequest request;
  request.input.token_ids = std::move(tokens);
  request.context_tokens = context;
  return request;
}

/// Losses of the tokens [scored, end), each from those of [begin, itself).
void add_losses(const FakeModel& model, const std::vector<std::int32_t>& tokens, std::size_t begin,
                std::size_t scored, std::size_t end, std::vector<double>& losses) {
  for (std::size_t t = scored; t < end; ++t)
    losses.push_back(model.loss_after(std::span(tokens).subspan(begin, t - begin), tokens[t]));
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

TEST(Perplexity, IsThatOfDisjointSegments) {
  const FakeModel model;
  const auto tokens = random_tokens(530, 1);
  std::vector<double> losses;
  for (std::size_t begin = 0; begin + 100 <= 530; begin += 100)
    add_losses(model, tokens, begin, begin + 1, begin + 100, losses);
  const Perplexity found = measure_perplexity(model, request_of(tokens, 100));
  EXPECT_EQ(found.num_tokens, 495);
  EXPECT_EQ(found.num_segments, 5);
  EXPECT_EQ(found.num_left_tokens, 30);
  EXPECT_NEAR(found.loss_nats, mean(losses), 1e-6);
  EXPECT_NEAR(found.perplexity, std::exp(mean(losses)), 1e-3);
  EXPECT_FALSE(found.partial);
  EXPECT_FALSE(found.kl_nats);
}

TEST(Perplexity, DoesNotDependOnChunksOrThreads) {
  const auto tokens = random_tokens(530, 2);
  const FakeModel base;
  for (const auto stride : {std::optional<std::int64_t>(), std::optional<std::int64_t>(37)}) {
    PerplexityRequest request = request_of(tokens, 100);
    request.stride = stride;
    const Perplexity expected = measure_perplexity(base, request);
    for (const std::int64_t chunk : {1, 7, 64, 99, 100, 256, 5000}) {
      for (const int threads : {1, 3}) {
        FakeModel model({.num_threads = threads});
        request.chunk_tokens = chunk;
        const Perplexity found = measure_perplexity(model, request);
        EXPECT_EQ(found.loss_nats, expected.loss_nats) << chunk << " " << threads;
        EXPECT_EQ(found.num_tokens, expected.num_tokens);
        EXPECT_EQ(found.standard_error, expected.standard_error);
        EXPECT_EQ(found.num_segments, expected.num_segments);
        EXPECT_LE(model.counts().most_rows, chunk);
      }
    }
  }
}

TEST(Perplexity, OfAWindowThatMovesScoresEachTokenOnce) {
  const FakeModel model;
  const auto tokens = random_tokens(250, 3);
  PerplexityRequest request = request_of(tokens, 100);
  request.stride = 40;
  // Windows [0,100), [40,140), [80,180), [120,220), [160,250).
  std::vector<double> losses;
  add_losses(model, tokens, 0, 1, 100, losses);
  add_losses(model, tokens, 40, 100, 140, losses);
  add_losses(model, tokens, 80, 140, 180, losses);
  add_losses(model, tokens, 120, 180, 220, losses);
  add_losses(model, tokens, 160, 220, 250, losses);
  const Perplexity found = measure_perplexity(model, request);
  EXPECT_EQ(found.num_tokens, 249);
  EXPECT_EQ(found.num_segments, 5);
  EXPECT_EQ(found.num_left_tokens, 0);
  EXPECT_NEAR(found.loss_nats, mean(losses), 1e-6);
}

TEST(Perplexity, OfAStrideAsLongAsTheWindowIsThatOfSegments) {
  const FakeModel model;
  PerplexityRequest request = request_of(random_tokens(300, 4), 100);
  const double segments = measure_perplexity(model, request).loss_nats;
  request.stride = 100;
  EXPECT_EQ(measure_perplexity(model, request).loss_nats, segments);
  // One token more is a window of nothing to predict.
  request.input.token_ids.push_back(1);
  const Perplexity longer = measure_perplexity(model, request);
  EXPECT_EQ(longer.loss_nats, segments);
  EXPECT_EQ(longer.num_tokens, 297);
}

TEST(Perplexity, OfAUniformModelIsTheVocabulary) {
  const FakeModel model({.sharpness = 0});
  Rng rng(20);
  for (int i = 0; i < 20; ++i) {
    PerplexityRequest request = request_of(
        random_tokens(rng.integer(2, 700), static_cast<std::uint64_t>(i)), rng.integer(2, 300));
    if (rng.integer(0, 1) == 1) request.stride = rng.integer(1, *request.context_tokens);
    request.chunk_tokens = rng.integer(1, 400);
    const Perplexity found = measure_perplexity(model, request);
    EXPECT_NEAR(found.perplexity, kVocab, 1e-4) << "seed 20, case " << i;
    EXPECT_NEAR(found.standard_error.value_or(0), 0, 1e-12);
  }
}

TEST(Perplexity, EncodesATextWithItsFirstToken) {
  const FakeModel model;
  PerplexityRequest request;
  request.input.text = "a b";
  const std::vector<std::int32_t> tokens = {fakes::kBos, 'a', fakes::kBlankA + 1};
  std::vector<double> losses;
  add_losses(model, tokens, 0, 1, 3, losses);
  const Perplexity found = measure_perplexity(model, request);
  EXPECT_EQ(found.num_tokens, 2);
  EXPECT_EQ(found.context_tokens, 512);  // the model has no 2048
  EXPECT_NEAR(found.loss_nats, mean(losses), 1e-6);
  EXPECT_FALSE(found.standard_error);
  request.input.special = false;
  EXPECT_EQ(measure_perplexity(model, request).num_tokens, 1);
}

TEST(Perplexity, OfAShortTextTakesItAsOneSegment) {
  const FakeModel model;
  const auto tokens = random_tokens(60, 5);
  std::vector<double> losses;
  add_losses(model, tokens, 0, 1, 60, losses);
  const Perplexity found = measure_perplexity(model, request_of(tokens, 100));
  EXPECT_EQ(found.num_tokens, 59);
  EXPECT_EQ(found.num_left_tokens, 0);
  EXPECT_NEAR(found.loss_nats, mean(losses), 1e-6);
}

TEST(Perplexity, LooksAtNoMoreTokensThanAsked) {
  const FakeModel model;
  const auto tokens = random_tokens(500, 6);
  PerplexityRequest request = request_of(tokens, 50);
  request.max_tokens = 120;
  const Perplexity found = measure_perplexity(model, request);
  EXPECT_EQ(found.num_tokens, 98);
  EXPECT_EQ(
      found.loss_nats,
      measure_perplexity(model, request_of({tokens.begin(), tokens.begin() + 120}, 50)).loss_nats);
}

TEST(Divergence, IsItsSumOverTheVocabulary) {
  const FakeModel reference({.seed = 1}), model({.seed = 2, .sharpness = 5});
  const auto tokens = random_tokens(90, 7);
  std::vector<double> expected;
  for (std::size_t begin = 0; begin < 90; begin += 30) {
    for (std::size_t t = begin + 1; t < begin + 30; ++t) {
      const auto history = std::span(tokens).subspan(begin, t - begin);
      const auto p = reference.log_probabilities(history), q = model.log_probabilities(history);
      double sum = 0;
      for (std::size_t v = 0; v < p.size(); ++v) sum += std::exp(p[v]) * (p[v] - q[v]);
      expected.push_back(sum);
    }
  }
  PerplexityRequest request = request_of(tokens, 30);
  request.reference = &reference;
  request.chunk_tokens = 11;
  const Perplexity found = measure_perplexity(model, request);
  EXPECT_GT(*found.kl_nats, 0.1);
  EXPECT_NEAR(*found.kl_nats, mean(expected), 1e-6);
  EXPECT_NEAR(measure_perplexity(reference, request).kl_nats.value(), 0, 0);
}

TEST(ReferenceStates, GiveWhatTheReferenceWouldGive) {
  const FakeModel reference({.seed = 1}), model({.seed = 2, .sharpness = 5});
  for (const std::optional<std::int64_t> stride : {std::optional<std::int64_t>{}, {17}}) {
    PerplexityRequest request = request_of(random_tokens(330, 3), 50);
    request.stride = stride;
    request.reference = &reference;
    for (const std::int64_t chunk : {20, 300}) {
      request.chunk_tokens = chunk;
      request.reference_states = nullptr;
      const Perplexity alone = measure_perplexity(model, request);
      request.reference_states = std::make_shared<ReferenceStates>();
      for (int turn = 0; turn < 3; ++turn) {
        const Perplexity found = measure_perplexity(model, request);
        EXPECT_EQ(found.kl_nats, alone.kl_nats) << turn;
        EXPECT_EQ(found.loss_increase_nats, alone.loss_increase_nats) << turn;
        EXPECT_EQ(found.loss_nats, alone.loss_nats) << turn;
      }
    }
  }
}

TEST(ReferenceStates, AreTakenForTheSameTextAloneAndKeptWhenAllIsRun) {
  const FakeModel reference({.seed = 1}), model({.seed = 2, .sharpness = 5});
  PerplexityRequest request = request_of(random_tokens(330, 3), 50);
  request.reference = &reference;
  std::atomic<bool> stop = false;
  request.stop = &stop;
  request.chunk_tokens = 50;
  request.progress = [&](const PerplexityProgress&) { stop = true; };
  const auto states = request.reference_states = std::make_shared<ReferenceStates>();
  EXPECT_TRUE(measure_perplexity(model, request).partial);
  EXPECT_TRUE(states->hidden.empty());

  stop = false;
  request.progress = {};
  const Perplexity first = measure_perplexity(model, request);
  EXPECT_EQ(states->hidden.size(),
            static_cast<std::size_t>(first.num_tokens * reference.shape().hidden_size));
  std::rotate(states->hidden.begin(), states->hidden.begin() + reference.shape().hidden_size,
              states->hidden.end());  // which is seen by who takes them
  EXPECT_NE(measure_perplexity(model, request).kl_nats, first.kl_nats);

  const std::vector<PerplexityRequest> others = [&] {
    std::vector<PerplexityRequest> list(4, request);
    list[0].input.token_ids.back() ^= 1;
    list[1].context_tokens = 55;
    list[2].stride = 50;
    list[3].chunk_tokens = 40;
    return list;
  }();
  for (PerplexityRequest other : others) {
    other.reference_states = std::make_shared<ReferenceStates>(*states);
    const auto found = measure_perplexity(model, other).kl_nats;
    other.reference_states = nullptr;
    EXPECT_EQ(found, measure_perplexity(model, other).kl_nats);
  }
}

TEST(LossIncrease, IsThatOfTheSameTokens) {
  const FakeModel reference({.seed = 1}), model({.seed = 2, .sharpness = 5});
  const auto tokens = random_tokens(1200, 8);
  PerplexityRequest request = request_of(tokens, 40);
  const Perplexity own = measure_perplexity(model, request);
  const Perplexity base = measure_perplexity(reference, request);
  EXPECT_FALSE(own.loss_increase_nats);
  request.reference = &reference;
  const Perplexity both = measure_perplexity(model, request);
  EXPECT_EQ(both.loss_nats, own.loss_nats);
  EXPECT_NEAR(*both.loss_increase_nats, own.loss_nats - base.loss_nats, 1e-12);
  EXPECT_GT(*both.loss_increase_standard_error, 0);
  const Perplexity same = measure_perplexity(reference, request);
  EXPECT_EQ(*same.loss_increase_nats, 0);
  EXPECT_EQ(*same.loss_increase_standard_error, 0);
}

TEST(Divergence, OfTwoKnownDistributions) {
  const std::vector<float> p = {std::log(0.5f), std::log(0.5f), -80},
                           q = {std::log(0.25f) + 3, std::log(0.25f) + 3, std::log(0.5f) + 3};
  std::vector<double> found(1);
  quality::divergence_rows(p, q, 1, found);
  EXPECT_NEAR(found[0], std::log(2.0), 1e-6);
  quality::divergence_rows(q, q, 1, found);
  EXPECT_EQ(found[0], 0);
}

TEST(Scores, AreExactForLargeLogitsAndTies) {
  const std::vector<float> logits = {1000, 1001, 1001, -1000};
  std::vector<double> found(1);
  quality::score_rows(logits, std::vector<std::int32_t>{0}, 1, found);
  EXPECT_NEAR(found[0], std::log(2 * std::exp(1.0) + 1), 1e-6);
  EXPECT_TRUE(quality::is_greedy(logits, 1));
  EXPECT_FALSE(quality::is_greedy(logits, 2));
}

TEST(BatchMeans, AreThoseOfTheirBatches) {
  // 600 values: batches of 256, 256 and 88.
  Rng rng(8);
  quality::BatchMeans means;
  std::vector<double> values, sums(3);
  for (int i = 0; i < 600; ++i) {
    values.push_back(rng.uniform());
    means.add(values.back());
    sums[static_cast<std::size_t>(i / 256)] += values.back();
  }
  const double sizes[] = {256, 256, 88};
  double squares = 0;
  for (std::size_t i = 0; i < 3; ++i) squares += std::pow(sums[i] - mean(values) * sizes[i], 2);
  EXPECT_NEAR(means.mean(), mean(values), 1e-12);
  EXPECT_NEAR(*means.standard_error(), std::sqrt(squares * 3 / 2) / 600, 1e-12);
  quality::BatchMeans few;
  for (int i = 0; i < 256; ++i) few.add(i);
  EXPECT_FALSE(few.standard_error());
}

TEST(BatchMeans, SayHowFarMeansOfCorrelatedValuesSpread) {
  // Values that remember 500 steps: the deviation of their mean is 30 times what independent ones
  // would have, which batches of 256 alone would not see.
  constexpr int kRepeats = 60, kValues = 40'000;
  constexpr double kKept = 1 - 1.0 / 500;
  Rng rng(9);
  std::vector<double> found, claimed;
  for (int i = 0; i < kRepeats; ++i) {
    quality::BatchMeans means;
    double value = 0;
    for (int t = 0; t < kValues + 2000; ++t) {
      value = kKept * value + rng.uniform() - 0.5;
      if (t >= 2000) means.add(value);
    }
    found.push_back(means.mean());
    claimed.push_back(*means.standard_error());
  }
  const quality::MeanAndError spread = quality::mean_of(found);
  const double deviation = *spread.standard_error * std::sqrt(kRepeats);
  EXPECT_GT(mean(claimed), 0.6 * deviation) << "seed 9";
  EXPECT_LT(mean(claimed), 1.4 * deviation) << "seed 9";
}

TEST(Perplexity, StopsWithWhatIsDone) {
  const FakeModel model;
  const auto tokens = random_tokens(400, 10);
  std::atomic<bool> stop = false;
  PerplexityRequest request = request_of(tokens, 100);
  request.chunk_tokens = 30;
  request.stop = &stop;
  int calls = 0;
  std::int64_t last = 0;
  request.progress = [&](const PerplexityProgress& now) {
    EXPECT_EQ(now.total_tokens, 396);
    EXPECT_GT(now.num_tokens, last);
    EXPECT_GT(now.tok_s, 0);
    last = now.num_tokens;
    stop = ++calls == 6;
  };
  const Perplexity found = measure_perplexity(model, request);
  EXPECT_TRUE(found.partial);
  EXPECT_EQ(found.num_tokens, 99 + 60);  // chunks of 30, 30, 30 and 9, then two
  EXPECT_EQ(found.num_segments, 2);
  std::vector<double> losses;
  add_losses(model, tokens, 0, 1, 100, losses);
  add_losses(model, tokens, 100, 101, 161, losses);
  EXPECT_NEAR(found.loss_nats, mean(losses), 1e-6);

  stop = true;
  expect_error(ErrorCode::interrupted, {"before the first token"},
               [&] { measure_perplexity(model, request); });
}

TEST(Perplexity, RefusesWhatCannotBeMeasured) {
  const FakeModel model({.broken_token = 77});
  const auto refused = [&](ErrorCode code, const std::vector<std::string>& parts, auto change) {
    PerplexityRequest request = request_of(random_tokens(80, 11), 20);
    std::replace(request.input.token_ids.begin(), request.input.token_ids.end(), 77, 78);
    change(request);
    expect_error(code, parts, [&] { measure_perplexity(model, request); });
  };
  const auto invalid = ErrorCode::invalid_argument, range = ErrorCode::out_of_range;
  refused(invalid, {"empty"}, [](auto& r) { r.input.token_ids.clear(); });
  refused(invalid, {"both"}, [](auto& r) { r.input.text = "x"; });
  refused(invalid, {"1 token;", "at least 2"}, [](auto& r) { r.input.token_ids = {5}; });
  refused(range, {"token 1 is 284", "vocabulary of 284"}, [](auto& r) {
    r.input.token_ids = {5, kVocab};
  });
  refused(range, {"-1"}, [](auto& r) { r.input.token_ids.back() = -1; });
  refused(range, {"context_tokens", "513", "512"}, [](auto& r) { r.context_tokens = 513; });
  refused(range, {"context_tokens", "1"}, [](auto& r) { r.context_tokens = 1; });
  refused(range, {"stride", "21"}, [](auto& r) { r.stride = 21; });
  refused(range, {"stride", "0"}, [](auto& r) { r.stride = 0; });
  refused(range, {"max_tokens"}, [](auto& r) { r.max_tokens = 1; });
  refused(range, {"chunk_tokens"}, [](auto& r) { r.chunk_tokens = 0; });
  refused(invalid, {"not finite"}, [](auto& r) { r.input.token_ids[40] = 77; });
  FakeModel other;
  other.shape().vocab_size = 100;
  refused(invalid, {"reference", "100", "284"}, [&](auto& r) { r.reference = &other; });
  FakeModel shorter({.max_context_tokens = 10});
  refused(range, {"context_tokens", "10"}, [&](auto& r) { r.reference = &shorter; });
}

}  // namespace
}  // namespace tessera::lm::perplexity_test
