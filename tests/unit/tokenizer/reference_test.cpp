// Token ids and texts against Hugging Face's: tests/reference/make_tokenizer_fixtures.py has
// written the files.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "fixtures.h"
#include "tessera/core/files.h"
#include "tessera/lm/text_stream.h"
#include "tessera/tokenizer/gguf.h"
#include "tokens.h"

namespace tessera::tokenizer::reference_test {
namespace {

class Reference : public testing::TestWithParam<std::string> {
 protected:
  static std::string file(const std::string& name) {
    return test::fixture(GetParam() + "/" + name);
  }
};

using test::Ids;

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

void expect_answers(const Tokenizer& tokenizer, const std::string& family) {
  for (const test::Answer& answer : test::answers(family)) {
    const std::string what = shown_json(answer.text);
    expect_same(tokenizer.encode(answer.text), answer.ids, tokenizer, what);
    expect_same(tokenizer.encode(answer.text, false), answer.plain, tokenizer, what + " alone");
    EXPECT_EQ(tokenizer.decode(answer.ids), answer.decoded) << what;
    EXPECT_EQ(tokenizer.decode(answer.ids, true), answer.skipped) << what;
  }
}

void expect_wikitext(const Tokenizer& tokenizer, const std::string& family,
                     const std::string& text) {
  const Json answer = read_json_file(test::fixture(family + "/answers.json"))["wikitext"];
  const Ids ids = tokenizer.encode(text, false);
  EXPECT_EQ(ids.size(), answer["num_tokens"].get<std::size_t>());
  EXPECT_EQ(test::fnv(ids), answer["fnv"].get<std::string>());
}

TEST_P(Reference, CutsAndJoinsTexts) {
  expect_answers(*Tokenizer::load(file("tokenizer.json")), GetParam());
}

TEST_P(Reference, StreamsWhatItDecodes) {
  const auto tokens = lm::load_tokens(file("tokenizer.json"));
  for (const test::Answer& answer : test::answers(GetParam())) {
    lm::TextStream stream(*tokens, {});
    std::string text;
    for (const std::int32_t id : answer.ids) {
      const std::string piece = stream.add(id);
      EXPECT_TRUE(is_utf8(piece));
      text += piece;
    }
    EXPECT_EQ(text + stream.finish(), answer.skipped);
  }
}

TEST_P(Reference, CutsWikiText) {
  const auto tokenizer = Tokenizer::load(file("tokenizer.json"));
  const auto text = test::wikitext();
  if (!text) GTEST_SKIP() << "wikitext-2.valid.txt is not beside the source tree";
  expect_wikitext(*tokenizer, GetParam(), *text);
}

// Llama 3's tokenizer.model and Mistral's tekken.json, by
// tests/reference/make_tiktoken_fixtures.py.
TEST(Tiktoken, CutsAndJoinsTexts) {
  const auto llama3 = Tokenizer::load(test::fixture("tiktoken"));
  expect_answers(*llama3, "tiktoken");
  EXPECT_EQ(llama3->vocab_size(), 480 + 256);
  EXPECT_EQ(llama3->bos_token_id(), 480);
  EXPECT_EQ(llama3->stop_token_ids(), (std::vector<std::int32_t>{481, 489}));
  EXPECT_EQ(llama3->token(489), "<|eot_id|>");
  const auto tekken = Tokenizer::load(test::fixture("tekken"));
  expect_answers(*tekken, "tekken");
  EXPECT_EQ(tekken->vocab_size(), 410);  // of 480 that the file holds, and 10 special ones
  EXPECT_EQ(tekken->token(9), "<SPECIAL_9>");
  EXPECT_EQ(tekken->eos_token_id(), 2);
}

INSTANTIATE_TEST_SUITE_P(Family, Reference,
                         testing::Values("gpt2", "opt", "roberta", "llama3", "qwen2", "qwen35",
                                         "smollm", "bloom", "falcon", "llama2", "mistral", "gemma",
                                         "unigram", "unigram_bytes", "word_level", "affixes",
                                         "split_removed", "split_isolated", "split_contiguous",
                                         "split_merged_with_previous", "split_merged_with_next",
                                         "split_removed_inverted", "split_isolated_inverted",
                                         "split_contiguous_inverted",
                                         "split_merged_with_previous_inverted",
                                         "split_merged_with_next_inverted"),
                         [](const auto& family) { return family.param; });

// What a GGUF file's vocabulary becomes as tokenizer.json is the same tokenizer.
std::shared_ptr<const Tokenizer> written_anew(const std::string& gguf) {
  std::string folder =
      (std::filesystem::temp_directory_path() / "tessera_vocabulary.XXXXXX").string();
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  EXPECT_TRUE(write_gguf_tokenizer(gguf, folder));
  const auto original = Tokenizer::load(gguf), written = Tokenizer::load(folder);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(written->vocab_size(), original->vocab_size());
  EXPECT_EQ(written->bos_token_id(), original->bos_token_id());
  EXPECT_EQ(written->eos_token_id(), original->eos_token_id());
  EXPECT_EQ(written->stop_token_ids(), original->stop_token_ids());
  for (std::int32_t id = 0; id < original->vocab_size(); ++id) {
    EXPECT_EQ(written->token(id), original->token(id));
    EXPECT_EQ(written->is_special(id), original->is_special(id));
  }
  return written;
}

// The same vocabularies in GGUF files: a token more or less around the text is the file's choice.
class OfGguf : public testing::TestWithParam<std::string> {};

TEST_P(OfGguf, CutsAsTokenizerJsonDoes) {
  const auto tokenizer = Tokenizer::load(test::fixture(GetParam() + "/vocabulary.gguf"));
  expect_answers(*tokenizer, GetParam());
  EXPECT_EQ(tokenizer->bos_token_id(), 1);
  EXPECT_EQ(tokenizer->eos_token_id(), 2);
  expect_answers(*written_anew(test::fixture(GetParam() + "/vocabulary.gguf")), GetParam());
}

// Ways to cut that no tokenizer.json beside them has, by tests/reference/make_gguf_cuts.py.
class CutOfGguf : public testing::TestWithParam<std::string> {};

TEST_P(CutOfGguf, IsThatOfItsModels) {
  const std::string folder = "cut_" + GetParam();
  const auto tokenizer = Tokenizer::load(test::fixture(folder + "/vocabulary.gguf"));
  expect_answers(*tokenizer, folder);
  const Json more = read_json_file(test::fixture(folder + "/answers.json"))["more"];
  ASSERT_EQ(more.size(), 5u);
  for (const auto& [text, ids] : more.items())
    expect_same(tokenizer->encode(text), ids.get<Ids>(), *tokenizer, text);
  expect_answers(*written_anew(test::fixture(folder + "/vocabulary.gguf")), folder);
}

INSTANTIATE_TEST_SUITE_P(Name, CutOfGguf,
                         testing::Values("deepseek_v3", "deepseek_coder", "bailingmoe",
                                         "seed_coder", "kimi_k2", "viking"),
                         [](const auto& name) { return name.param; });

// In a piece with its letter, where Qwen 2 would cut before it.
TEST(Qwen35, KeepsAMarkWithItsLetter) {
  for (const std::string file : {"qwen35", "qwen35/vocabulary.gguf"})
    EXPECT_EQ(Tokenizer::load(test::fixture(file))->encode(" ax\u0331"), Ids{297}) << file;
}

INSTANTIATE_TEST_SUITE_P(Family, OfGguf, testing::Values("smollm", "mistral", "qwen35"),
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
  expect_answers(*tokenizer, "smollm2");
  EXPECT_EQ(tokenizer->vocab_size(), 49152);
  EXPECT_EQ(tokenizer->stop_token_ids(), (Ids{0, 2}));
  const auto text = test::wikitext();
  if (!text) GTEST_SKIP() << "wikitext-2.valid.txt is not beside the source tree";
  expect_wikitext(*tokenizer, "smollm2", *text);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(*text, false)), *text);
}

}  // namespace
}  // namespace tessera::tokenizer::reference_test
