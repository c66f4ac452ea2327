// The packs of fuzz inputs: every byte survives, and what holds no input is refused.
#include "corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "folder.h"

namespace tessera::fuzz::corpus_test {
namespace {

using test::expect_error;
using ::testing::EndsWith;

class FuzzCorpus : public test::FolderTest {
 protected:
  void refused(const std::string& content, const std::string& part) const {
    const std::string pack = file("pack.json", content);
    expect_error(ErrorCode::invalid_argument, {part}, [&] { read_corpus({pack}); });
  }
  static int run(const std::string& arguments) {
    return std::system((FUZZ_CORPUS " " + arguments + " >/dev/null 2>&1").c_str());
  }
};

std::string every_byte() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  return bytes;
}

TEST_F(FuzzCorpus, ReadsFoldersAndPacksTogetherByName) {
  file("files/a", "1");
  file("files/c.json", "");
  const std::string pack = file("files.json", pack_text({{"d", every_byte()}, {"b", "\xff"}}));
  const std::vector<Input> inputs = read_corpus({path("files"), pack});
  ASSERT_EQ(inputs.size(), 4u);
  EXPECT_EQ(inputs[0].name + inputs[1].name + inputs[2].name + inputs[3].name, "abc.jsond");
  EXPECT_EQ(inputs[1].bytes, "\xff");
  EXPECT_EQ(inputs[2].bytes, "");
  EXPECT_EQ(inputs[3].bytes, every_byte());
}

TEST_F(FuzzCorpus, RefusesWhatHoldsNoInputs) {
  const auto read = [&] { read_corpus({path("pack.json")}); };
  expect_error(ErrorCode::not_found, {"pack.json"}, read);
  refused("{}", "no input in it");
  refused("", "pack.json");
  refused("[1]", "a pack is an object");
  refused(R"({"a": "1", "b": 2})", "b: an input is a text");
  refused(R"({"a": "\u0100"})", "a: a character beyond U+00FF");
  refused(R"({"../a": "1"})", "../a: no name for a file");
  std::filesystem::create_directory(path("empty"));
  expect_error(ErrorCode::invalid_argument, {"no input in it"},
               [&] { read_corpus({path("empty")}); });
}

TEST_F(FuzzCorpus, RefusesANameThatComesTwice) {
  const std::string pack = file("pack.json", pack_text({{"a", "1"}}));
  expect_error(ErrorCode::invalid_argument, {"two inputs are called a"}, [&] {
    read_corpus({pack, pack});
  });
  expect_error(ErrorCode::invalid_argument, {"two inputs are called a"}, [] {
    pack_text({{"a", "1"}, {"a", "2"}});
  });
}

TEST_F(FuzzCorpus, UnpacksAndAddsWhatWasFound) {
  const std::string text = pack_text({{"a", every_byte()}, {"b", "2"}});
  const std::string pack = file("pack.json", text);
  ASSERT_EQ(run("unpack " + path("files") + " " + pack), 0);
  EXPECT_EQ(read(path("files/a")), every_byte());
  // Files that it has already, whatever their names, change nothing.
  std::filesystem::rename(path("files/b"), path("files/x"));
  ASSERT_EQ(run("pack " + pack + " " + path("files")), 0);
  EXPECT_EQ(read(pack), text);
  file("files/c", "3");
  file("pack/seed", "4");  // the target's own folder
  file("files/d", "4");
  ASSERT_EQ(run("pack " + pack + " " + path("files")), 0);
  EXPECT_EQ(read(pack), pack_text({{"a", every_byte()}, {"b", "2"}, {"c", "3"}}));
  // Another input of a name that is taken.
  file("files/a", "5");
  EXPECT_NE(run("pack " + pack + " " + path("files")), 0);
}

// So that adding an input is a diff of one line.
TEST_F(FuzzCorpus, ShippedPacksAreWrittenAsTheToolWritesThem) {
  int packs = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(TESSERA_SOURCE_DIR "/tests/fuzz/corpus")) {
    if (entry.is_directory()) continue;
    EXPECT_THAT(entry.path().string(), EndsWith(".json"));
    EXPECT_EQ(read(entry.path()), pack_text(read_corpus({entry.path()}))) << entry.path();
    ++packs;
  }
  EXPECT_GE(packs, 1);
}

}  // namespace
}  // namespace tessera::fuzz::corpus_test
