// Token ids and texts against Hugging Face's: tests/reference/tokenizers.py has written the files.
#include <fmt/format.h>

#include <filesystem>

#include "fixtures.h"
#include "tessera/core/files.h"

namespace tessera::tokenizer {
namespace {

class Reference : public testing::TestWithParam<std::string> {
 protected:
  static std::string file(const std::string& name) {
    return test::fixture(GetParam() + "/" + name);
  }
};

using Ids = std::vector<std::int32_t>;

// Says where two lists part.
void expect_same(const Ids& found, const Ids& wanted, const Tokenizer& tokenizer,
                 const std::string& what) {
  if (found == wanted) return;
  const auto [a, b] = std::mismatch(found.begin(), found.end(), wanted.begin(), wanted.end());
  const auto token = [&](const Ids& ids, Ids::const_iterator at) {
    return at == ids.end() ? "nothing" : fmt::format("{} '{}'", *at, tokenizer.token(*at));
  };
  ADD_FAILURE() << what << ": token " << a - found.begin() << " is " << token(found, a) << " where "
                << token(wanted, b) << " belongs; " << found.size() << " tokens, " << wanted.size()
                << " belong there";
}

TEST_P(Reference, CutsAndJoinsTexts) {
  const auto tokenizer = Tokenizer::load(file("tokenizer.json"));
  const Json answers = read_json_file(file("answers.json"));
  const std::vector<std::string> texts = test::texts();
  ASSERT_EQ(answers["ids"].size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string what = fmt::format("text {}, {}", i, shown_json(texts[i]));
    const Ids ids = answers["ids"][i].get<Ids>();
    expect_same(tokenizer->encode(texts[i]), ids, *tokenizer, what);
    expect_same(tokenizer->encode(texts[i], false), answers["plain"][i].get<Ids>(), *tokenizer,
                what + " alone");
    EXPECT_EQ(tokenizer->decode(ids), answers["decoded"][i].get<std::string>()) << what;
    EXPECT_EQ(tokenizer->decode(ids, true), answers["skipped"][i].get<std::string>()) << what;
  }
}

TEST_P(Reference, StreamsWhatItDecodes) {
  const auto tokenizer = Tokenizer::load(file("tokenizer.json"));
  const Json answers = read_json_file(file("answers.json"));
  for (const bool skip : {false, true}) {
    StreamDecoder stream(tokenizer, skip);
    for (std::size_t i = 0; i < answers["ids"].size(); ++i) {
      std::string text;
      for (const std::int32_t id : answers["ids"][i].get<Ids>()) {
        const std::string piece = stream.push(id);
        EXPECT_TRUE(is_utf8(piece));
        text += piece;
      }
      text += stream.finish();
      EXPECT_EQ(text, answers[skip ? "skipped" : "decoded"][i].get<std::string>()) << "text " << i;
    }
  }
}

TEST_P(Reference, CutsWikiText) {
  const auto tokenizer = Tokenizer::load(file("tokenizer.json"));
  const Json answers = read_json_file(file("answers.json"));
  const auto text = test::wikitext();
  if (!text) GTEST_SKIP() << "wikitext-2.valid.txt is not beside the source tree";
  const Ids ids = tokenizer->encode(*text, false);
  EXPECT_EQ(ids.size(), answers["wikitext"]["num_tokens"].get<std::size_t>());
  EXPECT_EQ(test::fnv(ids), answers["wikitext"]["fnv"].get<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Family, Reference,
                         testing::Values("gpt2", "opt", "roberta", "llama3", "qwen2", "smollm",
                                         "bloom", "falcon", "llama2", "mistral", "gemma", "unigram",
                                         "unigram_bytes", "word_level", "affixes", "split_removed",
                                         "split_isolated", "split_contiguous",
                                         "split_merged_with_previous", "split_merged_with_next",
                                         "split_removed_inverted", "split_isolated_inverted",
                                         "split_contiguous_inverted",
                                         "split_merged_with_previous_inverted",
                                         "split_merged_with_next_inverted"),
                         [](const auto& family) { return family.param; });

// The same vocabularies in GGUF files: a token more or less around the text is the file's choice.
class OfGguf : public testing::TestWithParam<std::string> {};

TEST_P(OfGguf, CutsAsTokenizerJsonDoes) {
  const auto tokenizer = Tokenizer::load(test::fixture(GetParam() + "/vocabulary.gguf"));
  const Json answers = read_json_file(test::fixture(GetParam() + "/answers.json"));
  const std::vector<std::string> texts = test::texts();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string what = fmt::format("text {}, {}", i, shown_json(texts[i]));
    const Ids ids = answers["ids"][i].get<Ids>();
    expect_same(tokenizer->encode(texts[i]), ids, *tokenizer, what);
    EXPECT_EQ(tokenizer->decode(ids), answers["decoded"][i].get<std::string>()) << what;
    EXPECT_EQ(tokenizer->decode(ids, true), answers["skipped"][i].get<std::string>()) << what;
  }
  EXPECT_EQ(tokenizer->bos_token_id(), 1);
  EXPECT_EQ(tokenizer->eos_token_id(), 2);
}

INSTANTIATE_TEST_SUITE_P(Family, OfGguf, testing::Values("smollm", "mistral"),
                         [](const auto& family) { return family.param; });

class OfSentencePiece : public testing::TestWithParam<std::string> {};

TEST_P(OfSentencePiece, CutsAsTheLibraryDoes) {
  const auto tokenizer = Tokenizer::load(test::fixture(GetParam()));
  const Json answers = read_json_file(test::fixture(GetParam() + "/answers.json"));
  const std::vector<std::string> texts = test::texts();
  std::size_t compared = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Ids wanted = answers["plain"][i].get<Ids>();
    if (wanted.empty()) continue;  // a text with special tokens, which the library knows nothing of
    expect_same(tokenizer->encode(texts[i], false), wanted, *tokenizer,
                fmt::format("text {}, {}", i, shown_json(texts[i])));
    ++compared;
  }
  EXPECT_GT(compared, 40u);
  Ids with_bos = tokenizer->encode("Hello"), alone = tokenizer->encode("Hello", false);
  alone.insert(alone.begin(), 1);
  EXPECT_EQ(with_bos, alone);
  EXPECT_EQ(tokenizer->decode(with_bos, true), "Hello");
  EXPECT_EQ(tokenizer->stop_token_ids(), Ids{2});
}

INSTANTIATE_TEST_SUITE_P(Kind, OfSentencePiece, testing::Values("spm_bpe", "spm_unigram"),
                         [](const auto& family) { return family.param; });

TEST(Smollm2, CutsAsItsTokenizerDoes) {
  const char* path = std::getenv("TESSERA_SMOLLM2_GGUF");
  if (path == nullptr) GTEST_SKIP() << "TESSERA_SMOLLM2_GGUF names no file";
  const auto tokenizer = Tokenizer::load(path);
  const Json answers = read_json_file(test::fixture("smollm2/answers.json"));
  const std::vector<std::string> texts = test::texts();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string what = fmt::format("text {}, {}", i, shown_json(texts[i]));
    const Ids ids = answers["ids"][i].get<Ids>();
    expect_same(tokenizer->encode(texts[i]), ids, *tokenizer, what);
    EXPECT_EQ(tokenizer->decode(ids), answers["decoded"][i].get<std::string>()) << what;
  }
  EXPECT_EQ(tokenizer->vocab_size(), 49152);
  EXPECT_EQ(tokenizer->stop_token_ids(), (Ids{0, 2}));
  const auto text = test::wikitext();
  if (!text) GTEST_SKIP() << "wikitext-2.valid.txt is not beside the source tree";
  const Ids ids = tokenizer->encode(*text, false);
  EXPECT_EQ(ids.size(), answers["wikitext"]["num_tokens"].get<std::size_t>());
  EXPECT_EQ(test::fnv(ids), answers["wikitext"]["fnv"].get<std::string>());
  EXPECT_EQ(tokenizer->decode(ids), *text);
}

}  // namespace
}  // namespace tessera::tokenizer
