// Tokenizers that are broken, hostile or not understood: one clear error each, at once.
#include <fmt/format.h>

#include "expect_error.h"
#include "fixtures.h"
#include "folder.h"
#include "weight_files.h"

namespace tessera::tokenizer::refused_test {
namespace {

using test::expect_error;

class Refused : public test::FolderTest {
 protected:
  // A small tokenizer that is fine.
  static Json bpe() {
    return {{"added_tokens", Json::array()},
            {"normalizer", nullptr},
            {"pre_tokenizer", nullptr},
            {"post_processor", nullptr},
            {"decoder", nullptr},
            {"model",
             {{"type", "BPE"},
              {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}, {"aba", 3}, {"bab", 4}}},
              {"merges", {"a b", "ab a", "b ab"}}}}};
  }
  std::shared_ptr<const Tokenizer> load(const Json& json) const {
    return Tokenizer::load(file("tokenizer.json", json.dump()));
  }
  void refuses(const Json& json, const std::vector<std::string>& parts,
               ErrorCode code = ErrorCode::invalid_argument) const {
    expect_error(code, parts, [&] { load(json); });
  }
  void refuses_added(const Json& token, const std::vector<std::string>& parts) const {
    Json json = bpe();
    json["added_tokens"].push_back(token);
    refuses(json, parts);
  }
  static Json split(const std::string& expression) {
    return {{"type", "Split"},
            {"pattern", {{"Regex", expression}}},
            {"behavior", "Isolated"},
            {"invert", false}};
  }
};

TEST_F(Refused, NothingThatIsFine) {
  const auto tokenizer = load(bpe());
  EXPECT_EQ(tokenizer->encode("ababa"), (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(tokenizer->vocab_size(), 5);
  EXPECT_FALSE(tokenizer->eos_token_id());
  EXPECT_TRUE(tokenizer->encode("").empty());
  EXPECT_EQ(tokenizer->decode({}), "");
  Json json = bpe();
  json["pre_tokenizer"] = split("\\s+(?!\\S)|\\s+|a");
  json["model"]["vocab"][" "] = 5;
  EXPECT_EQ(load(json)->encode(std::string(500'000, ' ')).size(), 500'000u);
}

TEST_F(Refused, ReplacementsThatMakeGigabytesOfAWord) {
  const Json replace{
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(1000, 'a')}};
  const Json regex{
      {"type", "Replace"}, {"pattern", {{"Regex", "a"}}}, {"content", std::string(1000, 'a')}};
  for (const Json& one : {replace, regex}) {
    Json json = bpe();
    json["normalizer"] = {{"type", "Sequence"}, {"normalizers", Json(6, one)}};
    const auto tokenizer = load(json);
    expect_error(ErrorCode::out_of_range, {"replacements make more than"},
                 [&] { tokenizer->encode("aaaaaaaaaa"); });
    json = bpe();
    json["decoder"] = {{"type", "Sequence"}, {"decoders", Json(6, one)}};
    expect_error(ErrorCode::out_of_range, {"replacements make more than"}, [&] {
      load(json)->decode(std::vector<std::int32_t>{0, 0, 0});
    });
  }
}

TEST_F(Refused, WhatIsNotUnderstoodByName) {
  const std::pair<const char*, Json> components[] = {
      {"normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}}},
      {"pre_tokenizer", {{"type", "UnicodeScripts"}}},
      {"post_processor", {{"type", "Sideways"}}},
      {"decoder", {{"type", "CTC"}}},
      {"model", {{"type", "WordPiece"}, {"vocab", {{"a", 0}}}}}};
  for (const auto& [name, component] : components) {
    Json json = bpe();
    json[name] = component;
    refuses(json, {name, component["type"], "tokenizer.json"}, ErrorCode::unsupported);
  }
  Json json = bpe();
  json["decoder"] = {{"type", "Sequence"}, {"decoders", {{{"type", "Fuse"}}, {{"type", "CTC"}}}}};
  refuses(json, {"decoder[1]", "CTC"}, ErrorCode::unsupported);
  json = bpe();
  json["model"]["dropout"] = 0.1;
  refuses(json, {"dropout"}, ErrorCode::unsupported);
  json = bpe();
  json["model"]["surprise"] = 1;
  refuses(json, {"surprise"});
  json = bpe();
  json["pre_tokenizer"] = split("a");
  json["pre_tokenizer"]["behavior"] = "Sometimes";
  refuses(json, {"behavior", "Sometimes"}, ErrorCode::unsupported);
}

TEST_F(Refused, VocabulariesThatContradictThemselves) {
  Json json = bpe();
  json["model"]["vocab"]["c"] = 2;
  refuses(json, {"same id 2"});
  json = bpe();
  json["model"]["vocab"]["c"] = 10'000'000;
  refuses(json, {"10000000"});
  json = bpe();
  json["model"]["vocab"]["c"] = 1e300;
  refuses(json, {"no integer"});
  json = bpe();
  json["model"]["vocab"]["c"] = -1;
  refuses(json, {"-1"}, ErrorCode::out_of_range);
  json = bpe();
  json["model"]["vocab"] = Json::object();
  refuses(json, {"empty"});
  json = bpe();
  json["model"]["unk_token"] = "<unk>";
  refuses(json, {"<unk>", "not in the vocabulary"});
}

TEST_F(Refused, MergesOfNoTokens) {
  for (const Json& merge : {Json("a c"), Json("b b"), Json({"a", "c"})}) {
    Json json = bpe();
    json["model"]["merges"].push_back(merge);
    refuses(json, {"merge 3", "not in the vocabulary"});
  }
  for (const Json& merge : {Json("a"), Json("a b c"), Json({"a"}), Json(7), Json(nullptr)}) {
    Json json = bpe();
    json["model"]["merges"] = {merge};
    refuses(json, {"merge 0"});
  }
}

// Merges that build on each other in a circle end all the same: each takes one symbol away.
TEST_F(Refused, NoCircleOfMerges) {
  Json json = bpe();
  json["model"]["vocab"] = {{"a", 0}, {"aa", 1}, {"aaa", 2}, {"aaaa", 3}};
  json["model"]["merges"] = {"a a", "aa a", "a aa", "aa aa", "aaa a", "a aaa", "a a"};
  const auto tokenizer = load(json);
  std::int64_t length = 0;
  for (const std::int32_t id : tokenizer->encode(std::string(99'999, 'a'))) length += id + 1;
  EXPECT_EQ(length, 99'999);
}

TEST_F(Refused, AddedTokensThatContradictTheVocabulary) {
  refuses_added({{"id", 1}, {"content", "x"}}, {"the id 1", "x", "b"});
  refuses_added({{"id", 7}, {"content", "ab"}}, {"ab", "7", "2"});
  refuses_added({{"id", 16'000'000}, {"content", "x"}}, {"16000000"});
  refuses_added({{"id", 5}, {"content", ""}}, {"content"});
  refuses_added({{"id", 5}, {"content", std::string(5000, 'x')}}, {"5000"});
  refuses_added({{"id", 5}}, {"content"});
}

TEST_F(Refused, SpecialTokensThatDoNotExist) {
  Json json = bpe();
  json["post_processor"] = {
      {"type", "RobertaProcessing"}, {"sep", {"</s>", 77}}, {"cls", {"<s>", 0}}};
  refuses(json, {"77", "[0, 5)"}, ErrorCode::out_of_range);
  json["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}}}},
                            {"special_tokens", Json::object()}};
  refuses(json, {"<s>"});
  json["post_processor"]["single"] = Json::array();
  refuses(json, {"0 times"}, ErrorCode::unsupported);
  file("generation_config.json", R"({"eos_token_id": [1, 99]})");
  refuses(bpe(), {"99"}, ErrorCode::out_of_range);
}

TEST_F(Refused, ExpressionsThatAreBrokenOrMeanSomethingElse) {
  for (const char* broken : {"(", "[a", "a{2", "*", "(?<", "\\p{Nonsense}", ""}) {
    Json json = bpe();
    json["pre_tokenizer"] = split(broken);
    refuses(json, {"pre_tokenizer"});
  }
  for (const char* other : {"\\h", "a\\K", "(?m).", "(?i-m:a)", "(?~ab)", "\\g<1>"}) {
    Json json = bpe();
    json["pre_tokenizer"] = split(other);
    refuses(json, {"pre_tokenizer", "not understood"}, ErrorCode::unsupported);
  }
}

TEST_F(Refused, TextsOnWhichAnExpressionGivesUp) {
  for (const char* expression : {"(a+)+$x", "(a|a)*c", "(.*a){20}x", "((((a*)*)*)*)*b"}) {
    Json json = bpe();
    json["pre_tokenizer"] = split(expression);
    const auto tokenizer = load(json);
    expect_error(ErrorCode::invalid_argument, {"gives up", "tokenizer.json"},
                 [&] { tokenizer->encode(std::string(4000, 'a')); });
  }
}

TEST_F(Refused, CharactersWithoutToken) {
  const auto tokenizer = load(bpe());
  expect_error(ErrorCode::invalid_argument, {"U+0144", "no token"},
               [&] { tokenizer->encode("ab\xC5\x84"); });
}

TEST_F(Refused, IdsOutsideTheVocabulary) {
  const auto tokenizer = load(bpe());
  for (const std::int32_t id : {-1, 5, 2'000'000'000}) {
    const std::vector<std::int32_t> ids = {0, id};
    expect_error(ErrorCode::out_of_range, {std::to_string(id), "[0, 5)"},
                 [&] { tokenizer->decode(ids); });
    expect_error(ErrorCode::out_of_range, {std::to_string(id)}, [&] { tokenizer->token(id); });
  }
}

// SentencePiece trusts these: each ended the program, or was read beyond its memory.
class RefusedSentencePiece : public Refused {
 protected:
  static std::string field(int number, const std::string& bytes) {
    std::string text(1, static_cast<char>(number << 3 | 2));
    std::size_t size = bytes.size();
    for (; size > 0x7F; size >>= 7) text += static_cast<char>((size & 0x7F) | 0x80);
    return text + static_cast<char>(size) + bytes;
  }
  // "a" becomes "b": unit 0 leads to 97, which has a leaf at 98, which points at the first text.
  static std::vector<std::uint32_t> table() {
    std::vector<std::uint32_t> units(256);
    units['a'] = 'a' | 1u << 8 | static_cast<std::uint32_t>('a' ^ 'b') << 10;
    units['b'] = 1u << 31;
    return units;
  }
  static std::string normalizer(const std::vector<std::uint32_t>& units, const std::string& texts) {
    return field(3, field(2, test::raw(static_cast<std::uint32_t>(4 * units.size())) +
                                 test::raw(units) + texts));
  }
  std::shared_ptr<const Tokenizer> load_with(const std::string& added) const {
    const std::string whole = read(TESSERA_SOURCE_DIR "/tests/fuzz/corpus/tokenizer/unigram.model");
    return Tokenizer::load(file("tokenizer.model", whole + added));
  }
  void refuses_with(const std::string& added, const std::string& part) const {
    expect_error(ErrorCode::invalid_argument, {"tokenizer.model", part}, [&] { load_with(added); });
  }
};

TEST_F(RefusedSentencePiece, NothingThatIsFine) {
  const auto tokenizer = load_with(normalizer(table(), std::string("h\0", 2)));
  EXPECT_EQ(tokenizer->encode("aello"), load_with("")->encode("hello"));
}

TEST_F(RefusedSentencePiece, PiecesWithAZeroByte) {
  for (const std::string& piece : {std::string("\0b", 2), std::string("b\0", 2)}) {
    refuses_with(field(1, field(1, piece)), "holds a zero byte");
  }
}

TEST_F(RefusedSentencePiece, TablesThatLeadOutOfThemselves) {
  const std::string text("b\0", 2);
  auto units = table();
  units[0] = 0x7FFFFC00;
  refuses_with(normalizer(units, text), "unit 0 leads to unit");
  units = table();
  units['a'] |= 1u << 20;
  refuses_with(normalizer(units, text), "unit 97 leads to unit");
  units = table();
  units['b'] |= 2;
  refuses_with(normalizer(units, text), "unit 98 points at byte 2 of 2");
  refuses_with(normalizer(table(), "b"), "its last text has no end");
  refuses_with(normalizer(table(), ""), "1024 bytes of units in 1024");
  refuses_with(normalizer({}, text), "0 bytes of units");
  refuses_with(field(3, field(2, "abc")), "it is cut short");
}

TEST_F(RefusedSentencePiece, WhatIsNoMessage) {
  for (const std::string& added :
       {std::string("\x0A"), std::string("\x0A\x7F"), std::string("\x0B"), std::string(1, '\0'),
        std::string(11, '\xFF'), field(1, "\x0A\x05")}) {
    refuses_with(added, "no SentencePiece model in");
  }
}

TEST_F(Refused, VocabulariesOfTiktokenThatAreBroken) {
  const auto model = [&](const std::string& content, const std::vector<std::string>& words) {
    expect_error(ErrorCode::invalid_argument, words,
                 [&] { Tokenizer::load(file("tokenizer.model", content)); });
  };
  model("IQ== 0\nIg== 2\n", {"tokenizer.model", "line 2 is no token of rank 1", "Ig== 2"});
  model("IQ== 0\nIg 1\n", {"tokenizer.model", "token 1, 'Ig'", "base64"});
  model("IQ== 0\nIQ== 1\n", {"tokenizer.model", "'!'"});
  const auto tekken = [&](const char* config, const char* vocab, const char* word) {
    const std::string content =
        fmt::format(R"({{"config": {{"pattern": "a"{}}}, "vocab": [{}]}})", config, vocab);
    expect_error(ErrorCode::invalid_argument, {"tekken.json", word},
                 [&] { Tokenizer::load(file("tekken.json", content)); });
  };
  const char* sizes = R"(, "default_vocab_size": 9, "default_num_special_tokens": 3)";
  tekken("", "", "default_vocab_size");
  tekken(sizes, R"({"rank": 1, "token_bytes": "IQ=="})", "vocab[0]: rank");
  tekken(sizes, R"({"rank": 0, "token_bytes": "!"})", "token 0, '!'");
}

TEST_F(Refused, FilesThatAreNoTokenizer) {
  expect_error(ErrorCode::not_found, {"nowhere"}, [&] { Tokenizer::load(path("nowhere")); });
  expect_error(ErrorCode::not_found, {"tokenizer.json", "tokenizer.model"},
               [&] { Tokenizer::load(folder_.string()); });
  expect_error(ErrorCode::unsupported, {"vocab.txt"},
               [&] { Tokenizer::load(file("vocab.txt", "a\nb\n")); });
  expect_error(ErrorCode::invalid_argument, {"tokenizer.json"},
               [&] { Tokenizer::load(file("tokenizer.json", "{")); });
  expect_error(ErrorCode::invalid_argument,
               {"tokenizer.model", "no SentencePiece model in 11 bytes; it was cut short"},
               [&] { Tokenizer::load(file("tokenizer.model", "\x0A\xFF\xFFnonsense")); });
  expect_error(ErrorCode::invalid_argument, {"tokenizer.model"},
               [&] { Tokenizer::load(file("tokenizer.model", "")); });
}

}  // namespace
}  // namespace tessera::tokenizer::refused_test
