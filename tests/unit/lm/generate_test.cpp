// Texts token by token on a model without arithmetic: where they end, what is streamed, what is
// refused.

#include "tessera/lm/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "fake_language_model.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/lm/speed.h"

namespace tessera::lm::generate_test {
namespace {

using fakes::kEnd;
using fakes::kVocab;
using testing::HasSubstr;

// Its tokens are bytes.
struct FakeModel : fakes::FakeModel {
  FakeModel() : fakes::FakeModel({.max_context_tokens = 100, .num_threads = 0}) {
    own_tokens.is_plain = true;
  }
};

std::vector<std::int32_t> bytes(std::string_view text) { return FakeModel().tokens().encode(text); }

// A model that says `text`, then ends it: the prompt is one zero byte, and no pair of bytes of the
// text is in it twice.
FakeModel speaker(const std::string& text) {
  FakeModel model;
  model.logit = [ids = bytes(text)](std::int32_t previous, std::int32_t last, std::int32_t token) {
    std::int32_t next = last == 0 ? ids.front() : kEnd;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      if (ids[i] == last && (i == 0 ? 0 : ids[i - 1]) == previous) next = ids[i + 1];
    }
    return token == next ? 10.0f : 0.0f;
  };
  return model;
}

GenerateRequest greedy(std::int64_t max_tokens) {
  return {.sampling = {.temperature = 0}, .max_tokens = max_tokens};
}

std::string message_of(const FakeModel& model, const std::vector<std::int32_t>& prompt,
                       const GenerateRequest& request = {}) {
  try {
    generate(model, prompt, request);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Generate, SaysWhatTheModelSays) {
  const Generation found = generate(speaker("Hello, world"), {0}, greedy(50));
  EXPECT_EQ(found.text, "Hello, world");
  EXPECT_EQ(found.tokens, bytes("Hello, world"));
  EXPECT_EQ(found.stop_reason, StopReason::stop_token);
  EXPECT_EQ(found.prompt_tokens, 1);
  ASSERT_TRUE(found.ttft_s && found.tpot_s);
  EXPECT_GE(*found.ttft_s, found.prompt_s);
}

TEST(Generate, StopsAtMaxTokens) {
  const Generation found = generate(speaker("Hello, world"), {0}, greedy(5));
  EXPECT_EQ(found.text, "Hello");
  EXPECT_EQ(found.stop_reason, StopReason::max_tokens);
  const Generation one = generate(speaker("Hello"), {0}, greedy(1));
  EXPECT_EQ(one.text, "H");
  EXPECT_FALSE(one.tpot_s.has_value());
}

TEST(Generate, GoesOnBehindTheEndWhereAsked) {
  GenerateRequest request = greedy(6);
  request.ignore_stop_tokens = true;
  const Generation found = generate(speaker("Hi"), {0}, request);
  EXPECT_EQ(found.tokens.size(), 6u);
  EXPECT_EQ(found.tokens[2], kEnd);
  EXPECT_EQ(found.text, "Hi");
}

TEST(Generate, EndsWithTheContext) {
  FakeModel model;
  model.logit = [](std::int32_t, std::int32_t, std::int32_t token) {
    return token == 65 ? 1.f : 0;
  };
  const Generation found = generate(model, std::vector<std::int32_t>(90, 66), greedy(1000));
  EXPECT_EQ(found.text, "AAAAAAAAAA");
  EXPECT_EQ(found.stop_reason, StopReason::context);
  EXPECT_EQ(generate(model, std::vector<std::int32_t>(90, 66), greedy(10)).stop_reason,
            StopReason::max_tokens);
}

TEST(Generate, RefusesWhatDoesNotFit) {
  const FakeModel model;
  EXPECT_THAT(message_of(model, {}), HasSubstr("prompt: there is no token; the text is empty"));
  EXPECT_THAT(message_of(model, std::vector<std::int32_t>(100, 1)),
              HasSubstr("100 tokens fill the context of fake, 100 tokens"));
  EXPECT_THAT(message_of(model, std::vector<std::int32_t>(101, 1)),
              HasSubstr("101 tokens are more than the context of fake, 100 tokens"));
  EXPECT_THAT(message_of(model, {5, 284}), HasSubstr("token 2 is 284; fake has tokens 0 to 283"));
  EXPECT_THAT(message_of(model, {-1}), HasSubstr("token 1 is -1"));
  FakeModel broken;
  broken.logit = [](std::int32_t, std::int32_t, std::int32_t) { return std::nanf(""); };
  EXPECT_THAT(message_of(broken, {1}), HasSubstr("NaN"));
}

TEST(Generate, StreamsWholeCharacters) {
  const std::string text = "a\xC3\xA9 \xE2\x82\xAC\xF0\x9F\x98\x80z";  // é, €, an emoji
  std::vector<std::string> pieces;
  std::vector<std::int32_t> ids;
  GenerateRequest request = greedy(50);
  request.on_token = [&](std::string_view piece, std::optional<std::int32_t> id) {
    EXPECT_TRUE(is_utf8(piece)) << piece;
    pieces.emplace_back(piece);
    if (id) ids.push_back(*id);
    return true;
  };
  const Generation found = generate(speaker(text), {0}, request);
  EXPECT_EQ(found.text, text);
  EXPECT_EQ(join(pieces, ""), text);
  EXPECT_EQ(ids, found.tokens);
  EXPECT_THAT(pieces, testing::ElementsAre("a", "", "\xC3\xA9", " ", "", "", "\xE2\x82\xAC", "", "",
                                           "", "\xF0\x9F\x98\x80", "z"));
}

TEST(Generate, ReplacesWhatIsNoCharacter) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(generate(speaker("a\xE2\x82"), {0}, greedy(50)).text, "a" + mark);
  EXPECT_EQ(generate(speaker("a\xFFz"), {0}, greedy(50)).text, "a" + mark + "z");
  EXPECT_EQ(generate(speaker("\xC0\xAFq"), {0}, greedy(50)).text, mark + mark + "q");
  EXPECT_EQ(generate(speaker("\xED\xA0\x80q"), {0}, greedy(50)).text, mark + mark + mark + "q");
  // An endless run of bytes that never become characters is not kept back for ever.
  FakeModel model;
  model.logit = [](std::int32_t, std::int32_t, std::int32_t t) { return t == 0x80 ? 1.f : 0; };
  std::size_t shown = 0;
  GenerateRequest request = greedy(40);
  request.on_token = [&](std::string_view piece, std::optional<std::int32_t> id) {
    if (id) shown += piece.size();
    return true;
  };
  const Generation found = generate(model, {0}, request);
  EXPECT_EQ(found.text.size(), 3 * 40u);
  EXPECT_GE(shown, 3 * 30u);
}

TEST(Generate, EndsWhereTheCallerSays) {
  GenerateRequest request = greedy(50);
  request.on_token = [](std::string_view piece, std::optional<std::int32_t>) {
    return piece != "l";
  };
  const Generation found = generate(speaker("Hello"), {0}, request);
  EXPECT_EQ(found.text, "Hel");
  EXPECT_EQ(found.stop_reason, StopReason::on_token);
}

TEST(Generate, KeepsWhatIsDoneAtAnInterrupt) {
  GenerateRequest request = greedy(50);
  int left = 4;
  request.interrupted = [&] { return --left == 0; };
  const Generation found = generate(speaker("Hello"), {0}, request);
  EXPECT_EQ(found.text, "Hel");
  EXPECT_EQ(found.stop_reason, StopReason::interrupted);
  left = 1;
  const Generation none = generate(speaker("Hello"), {0}, request);
  EXPECT_TRUE(none.tokens.empty());
  EXPECT_FALSE(none.ttft_s.has_value());
}

TEST(Generate, SameSeedSameText) {
  const FakeModel model;
  GenerateRequest request{.sampling = {.seed = 5}, .max_tokens = 60};
  const auto first = generate(model, {1, 2, 3}, request).tokens;
  EXPECT_EQ(generate(model, {1, 2, 3}, request).tokens, first);
  request.sampling.seed = 6;
  EXPECT_NE(generate(model, {1, 2, 3}, request).tokens, first);
}

TEST(Generate, APenaltyCountsThePromptToo) {
  FakeModel model;
  model.logit = [](std::int32_t, std::int32_t, std::int32_t token) {
    return token == 'a' ? 3.f : token == 'b' ? 2.5f : 0.f;
  };
  GenerateRequest request = greedy(1);
  request.sampling.repetition_penalty = 2;
  EXPECT_EQ(generate(model, bytes("a"), request).text, "b");
  EXPECT_EQ(generate(model, bytes("x"), request).text, "a");
}

TEST(Logits, AreThoseOfEachToken) {
  const FakeModel model;
  const auto rows = logits_of(model, {1, 2, 3});
  ASSERT_EQ(rows.size(), 3u * kVocab);
  Sequence sequence(model, 3);
  std::vector<float> row(kVocab);
  for (std::int32_t token = 1; token <= 3; ++token) {
    sequence.add({&token, 1}, row);
    const auto begin = rows.begin() + (token - 1) * kVocab;
    EXPECT_TRUE(std::equal(row.begin(), row.end(), begin)) << token;
  }
  EXPECT_THROW(logits_of(model, {}), Error);
  EXPECT_THROW(logits_of(model, std::vector<std::int32_t>(101, 1)), Error);
  EXPECT_THROW(logits_of(model, {1}, [] { return true; }), Error);
}

TEST(Speed, CountsItsRepeats) {
  const FakeModel model;
  int reports = 0;
  SpeedRequest request{.prompt_tokens = 64, .context_tokens = 20, .output_tokens = 10};
  request.repeats = 3;
  request.progress = [&](std::int64_t, std::int64_t total) { reports += total == 3; };
  const Speed found = measure_speed(model, request);
  EXPECT_EQ(found.prefill_tok_s.size(), 3u);
  EXPECT_EQ(found.decode_tok_s.size(), 3u);
  EXPECT_GT(found.decode_tok_s[0], 0);
  EXPECT_EQ(found.kv_cache_bytes, 3 * 2 * 16 * 4);
  EXPECT_EQ(reports, 3);
  request.prompt_tokens = 101;
  EXPECT_THROW(measure_speed(model, request), Error);
}

TEST(Speed, RunsSequencesSideBySide) {
  const FakeModel model;
  SpeedRequest request{.prompt_tokens = 17, .context_tokens = 20, .output_tokens = 10};
  request.repeats = 1;
  request.batch_size = 3;
  const Speed found = measure_speed(model, request);
  EXPECT_EQ(found.decode_tok_s.size(), 1u);
  EXPECT_EQ(found.kv_cache_bytes, 3 * (3 * 2 * 16 * 4));  // of one: CountsItsRepeats
}

// The fake model's context is 100 tokens.
TEST(Speed, TakesLengthsThatTheContextAllows) {
  const FakeModel model;
  const auto lengths = [&](SpeedRequest request) {
    request.repeats = 1;
    const Speed speed = measure_speed(model, request);
    return std::vector{speed.prompt_tokens, speed.context_tokens, speed.output_tokens};
  };
  EXPECT_EQ(lengths({}), (std::vector<std::int64_t>{100, 50, 50}));
  EXPECT_EQ(lengths({.prompt_tokens = 7, .context_tokens = 90}),
            (std::vector<std::int64_t>{7, 90, 10}));
  EXPECT_EQ(lengths({.output_tokens = 99}), (std::vector<std::int64_t>{100, 1, 99}));
  EXPECT_THROW(lengths({.context_tokens = 100}), Error);
  EXPECT_THROW(lengths({.output_tokens = 100}), Error);
}

}  // namespace
}  // namespace tessera::lm::generate_test
