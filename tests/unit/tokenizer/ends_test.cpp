// Which tokens begin and end a text, and text that comes token by token.
#include <thread>

#include "fixtures.h"
#include "folder.h"
#include "tessera/lm/text_stream.h"
#include "tokens.h"

namespace tessera::tokenizer::ends_test {
namespace {

using test::Ids;

TEST(Ends, AreWhatTheFilesBesideSay) {
  const auto llama = Tokenizer::load(test::fixture("llama3"));
  EXPECT_EQ(llama->bos_token_id(), 0);
  EXPECT_EQ(llama->eos_token_id(), 1);
  EXPECT_EQ(llama->stop_token_ids(), (Ids{1, 2}));
  EXPECT_EQ(llama->token(2), "<|eot_id|>");
  EXPECT_TRUE(llama->is_special(2));
  EXPECT_FALSE(llama->is_special(10));
  const auto opt = Tokenizer::load(test::fixture("opt"));
  EXPECT_EQ(opt->bos_token_id(), 2);
  EXPECT_EQ(opt->stop_token_ids(), Ids{2});
  EXPECT_EQ(opt->encode("").front(), 2);
  const auto bloom = Tokenizer::load(test::fixture("bloom"));
  EXPECT_FALSE(bloom->bos_token_id());
  EXPECT_TRUE(bloom->stop_token_ids().empty());
}

class EndsOf : public test::FolderTest {};

TEST_F(EndsOf, SentencePieceFollowItsConfiguration) {
  const std::string model = read(test::fixture("spm_bpe/tokenizer.model"));
  const auto without = [&](const std::string& config) {
    file("tokenizer_config.json", config);
    return Tokenizer::load(file("tokenizer.model", model));
  };
  EXPECT_EQ(without("{}")->encode("a").front(), 1);
  EXPECT_NE(without(R"({"add_bos_token": false})")->encode("a").front(), 1);
  EXPECT_EQ(without(R"({"add_eos_token": true})")->encode("a").back(), 2);
  // The text after a special token begins with a blank of SentencePiece's own, or does not.
  const Ids old = without("{}")->encode("</s>a"),
            now = without(R"({"legacy": false})")->encode("</s>a");
  EXPECT_EQ(old[1], 2);
  EXPECT_EQ(now[1], 2);
  EXPECT_EQ(now.size(), 3u);
  EXPECT_NE(old[2], now[2]);
  EXPECT_EQ(Tokenizer::load(path("tokenizer.model"))->decode(now), "<s></s>a");
}

// A character of four bytes comes when its last byte does.
TEST(Stream, KeepsCharactersWhole) {
  const auto tokens = lm::load_tokens(test::fixture("mistral"));
  lm::TextStream stream(*tokens, {});
  const Ids ids = tokens->encode("x\U0001F9FF");
  std::vector<std::string> pieces;
  for (const std::int32_t id : ids) pieces.push_back(stream.add(id));
  EXPECT_EQ(pieces.back(), "\U0001F9FF");
  for (std::size_t i = pieces.size() - 4; i + 1 < pieces.size(); ++i) EXPECT_EQ(pieces[i], "");
  EXPECT_EQ(stream.finish(), "");
  lm::TextStream broken(*tokens, {});
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) broken.add(ids[i]);
  EXPECT_EQ(broken.finish(), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(broken.finish(), "");
}

TEST(Stream, GivesUpOnBytesThatNeverBecomeText) {
  const auto tokens = lm::load_tokens(test::fixture("gpt2"));
  const Ids ids = tokens->encode("\U0001F9FF");
  lm::TextStream stream(*tokens, {});
  std::string text;
  for (int i = 0; i < 1000; ++i) text += stream.add(ids.front());
  EXPECT_GT(text.size(), 900u);
  EXPECT_TRUE(is_utf8(text));
}

TEST(Threads, EncodeAtTheSameTime) {
  const auto tokenizer = Tokenizer::load(test::fixture("qwen2"));
  const std::vector<test::Answer> answers = test::answers("qwen2");
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int& mistakes : wrong) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        for (const test::Answer& answer : answers) {
          mistakes += tokenizer->encode(answer.text) != answer.ids;
          mistakes += tokenizer->decode(answer.ids) != answer.decoded;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

}  // namespace
}  // namespace tessera::tokenizer::ends_test
