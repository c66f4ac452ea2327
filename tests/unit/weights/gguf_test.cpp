// Reading GGUF: blocks against the numbers of the gguf package, metadata, and broken files.
#include <limits>

#include "expect_error.h"
#include "folder.h"
#include "tessera/core/error.h"
#include "tessera/weights/linears.h"
#include "tessera/weights/weights.h"
#include "weight_files.h"

namespace tessera::weights::gguf_test {
namespace {

using test::expect_error;
using test::GgufFile;
using test::raw;

std::vector<float> all_of(const Weights& weights, const std::string& name) {
  const TensorInfo& tensor = weights.require(name);
  std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
  read_f32(weights, tensor, 0, values);
  return values;
}

std::string reference(const std::string& name) {
  return std::string(TESSERA_SOURCE_DIR) + "/tests/reference/" + name;
}

class Gguf : public test::FolderTest {
 protected:
  std::shared_ptr<const Weights> open(const std::string& content) const {
    return Weights::open(file("a.gguf", content));
  }
  void refuses(const std::string& content, const std::vector<std::string>& parts,
               ErrorCode code = ErrorCode::invalid_argument) const {
    std::vector<std::string> all = parts;
    all.push_back(path("a.gguf"));
    expect_error(code, all, [&] { open(content); });
  }
};

// Written by tests/reference/gguf_blocks.py.
TEST_F(Gguf, readsBlocksAsTheGgufPackageDoes) {
  const auto blocks = Weights::open(reference("blocks.gguf"));
  const auto expected = Weights::open(reference("blocks.safetensors"));
  ASSERT_EQ(expected->tensors().size(), 27u);
  for (const TensorInfo& tensor : expected->tensors()) {
    const auto found = all_of(*blocks, tensor.name), wanted = all_of(*expected, tensor.name);
    ASSERT_EQ(blocks->require(tensor.name).shape, tensor.shape);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(found[i], wanted[i]) << tensor.name << ", element " << i;
    }
  }
  EXPECT_EQ(blocks->config()["numbers"], Json({1, 2, 3}));
}

TEST_F(Gguf, readsPartsOfBlocks) {
  const auto weights = Weights::open(reference("blocks.gguf"));
  for (const char* name : {"Q4_0", "Q8_0", "Q6_K", "NVFP4", "Q1_0", "IQ1_M", "IQ4_XS"}) {
    const auto all = all_of(*weights, name);
    for (const auto& [first, count] :
         {std::pair{0, 1}, {1, 31}, {31, 2}, {5, 600}, {255, 257}, {1000, 24}, {1024, 0}}) {
      std::vector<float> part(static_cast<std::size_t>(count));
      read_f32(*weights, weights->require(name), first, part);
      EXPECT_EQ(part, std::vector<float>(all.begin() + first, all.begin() + first + count));
    }
  }
}

// ggml keeps it in memory, beside a product.
TEST_F(Gguf, listsTheTypeThatItDoesNotRead) {
  const auto weights = Weights::open(reference("blocks.gguf"));
  expect_error(ErrorCode::unsupported, {"blocks.gguf", "stored as", "Q8_1"},
               [&] { all_of(*weights, "Q8_1"); });
}

TEST_F(Gguf, readsMetadataOfEveryType) {
  const std::string names =
      raw(8u) + raw<std::uint64_t>(2) + GgufFile::text("a") + GgufFile::text("b");
  const std::string nested =
      raw(9u) + raw<std::uint64_t>(1) + raw(0u) + raw<std::uint64_t>(2) + std::string("\x01\x02");
  std::string many = raw(8u) + raw<std::uint64_t>(5000);
  for (int i = 0; i < 5000; ++i) many += GgufFile::text("word");
  const std::string content =
      GgufFile()
          .key("u8", 0, "\x07")
          .key("i8", 1, "\xff")
          .key("u16", 2, raw<std::uint16_t>(7))
          .key("i16", 3, raw<std::int16_t>(-7))
          .number("u32", 7)
          .key("i32", 5, raw<std::int32_t>(-7))
          .key("f32", 6, raw(0.5f))
          .key("bool", 7, "\x01")
          .word("text", "t")
          .key("names", 9, names)
          .key("u64", 10, raw<std::uint64_t>(UINT64_MAX))
          .key("i64", 11, raw<std::int64_t>(-7))
          .key("f64", 12, raw(0.25))
          .key("nested", 9, nested)
          .key("many", 9, many)
          .key("many_numbers", 9, raw(4u) + raw<std::uint64_t>(5000) + std::string(20000, 0))
          .bytes();
  for (const std::uint32_t version : {2u, 3u}) {
    std::string file = content;
    file.replace(4, 4, raw(version));
    const Json config = open(file)->config();
    EXPECT_EQ(config.dump(),
              R"({"u8":7,"i8":-1,"u16":7,"i16":-7,"u32":7,"i32":-7,"f32":0.5,"bool":true,)"
              R"("text":"t","names":["a","b"],"u64":18446744073709551615,"i64":-7,"f64":0.25,)"
              R"("nested":[[1,2]],"many":{"type":"text","length":5000},)"
              R"("many_numbers":{"type":"u32","length":5000}})");
  }
}

TEST_F(Gguf, takesItsAlignmentFromTheMetadata) {
  GgufFile file;
  file.number("general.alignment", 64).entry({"x", {2}, 0, 64}).entry({"y", {1}, 0, 0});
  std::string content = file.bytes();
  content.resize((content.size() + 63) / 64 * 64);
  content += std::string(64, 0) + raw<float>({1.5f, 2.5f});
  EXPECT_EQ(all_of(*open(content), "x"), (std::vector<float>{1.5f, 2.5f}));
  for (const std::uint32_t wrong : {0u, 3u, 48u, 1u << 30}) {
    refuses(GgufFile().number("general.alignment", wrong).bytes(), {"general.alignment"});
  }
  refuses(GgufFile().word("general.alignment", "32").bytes(), {"general.alignment"});
}

TEST_F(Gguf, refusesOtherVersions) {
  refuses(GgufFile().bytes(1), {"byte 4", "version 1"}, ErrorCode::unsupported);
  refuses(GgufFile().bytes(4), {"version 4"}, ErrorCode::unsupported);
  refuses(GgufFile().bytes(0x03000000), {"big-endian"}, ErrorCode::unsupported);
}

// A part of a model with one tensor, named after its number.
std::string part(std::uint16_t index, std::uint16_t count, std::uint32_t num_tensors) {
  GgufFile file;
  file.key("split.no", 2, raw(index)).key("split.count", 2, raw(count));
  file.key("split.tensors.count", 5, raw(num_tensors)).number("of", index);
  return file.tensor("t" + std::to_string(index), {1}, 0, raw(0.5f + static_cast<float>(index)))
      .bytes();
}

TEST_F(Gguf, readsAllPartsOfAModelByAnyOfThem) {
  const std::string first = file("m-00001-of-00003.gguf", part(0, 3, 3));
  file("m-00002-of-00003.gguf", part(1, 3, 3));
  const std::string last = file("m-00003-of-00003.gguf", part(2, 3, 3));
  file("mmproj-m.gguf", GgufFile().bytes());  // the encoder of pictures
  for (const std::string& given : {first, last, folder_.string()}) {
    const auto weights = Weights::open(given);
    EXPECT_EQ(weights->names(), (std::vector<std::string>{"t0", "t1", "t2"})) << given;
    EXPECT_EQ(all_of(*weights, "t2"), std::vector<float>{2.5f});
    EXPECT_EQ(weights->config()["of"], 0);
    EXPECT_EQ(weights->config_path(), first);
  }
  file("other.gguf", GgufFile().bytes());
  expect_error(ErrorCode::invalid_argument, {"4 GGUF files", "other.gguf"},
               [&] { Weights::open(folder_.string()); });
}

TEST_F(Gguf, refusesPartsThatDoNotMakeAModel) {
  refuses(part(0, 3, 3), {"one of 3 parts", "leads to 1", "-00001-of-00003.gguf"});
  refuses(part(1, 3, 3), {"part 2 of 3", "part 1 belongs"});
  const auto refused = [&](const std::string& path, const std::vector<std::string>& words,
                           ErrorCode code = ErrorCode::invalid_argument) {
    expect_error(code, words, [&] { Weights::open(path); });
  };
  const std::string first = file("m-00001-of-00002.gguf", part(0, 2, 3));
  refused(first, {"one of 2 parts", "m-00002-of-00002.gguf"}, ErrorCode::not_found);
  file("m-00002-of-00002.gguf", part(0, 2, 3));
  refused(first, {"m-00002-of-00002.gguf", "part 1 of 2", "part 2 belongs"});
  file("m-00002-of-00002.gguf", part(1, 2, 3));
  refused(first, {"has 3 tensors", "2 files hold 2"});
  refuses(GgufFile().word("split.count", "two").bytes(), {"split.count"});
}

TEST_F(Gguf, refusesEveryWayOfBeingCutShort) {
  const std::string content = GgufFile()
                                  .word("general.architecture", "llama")
                                  .key("f", 6, raw(0.5f))
                                  .tensor("x", {32, 2}, 0, std::string(256, 1))
                                  .bytes();
  EXPECT_EQ(open(content)->tensors().size(), 1u);
  for (std::size_t size = 4; size < content.size(); ++size) {
    try {
      open(content.substr(0, size));
      ADD_FAILURE() << "no error at " << size << " bytes";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
      EXPECT_THAT(error.what(), testing::HasSubstr("byte "));
    }
  }
}

TEST_F(Gguf, refusesCountsThatDoNotFit) {
  const auto head = [](std::uint64_t tensors, std::uint64_t keys) {
    return "GGUF" + raw(3u) + raw(tensors) + raw(keys);
  };
  refuses(head(UINT64_MAX, 0), {"byte 8", "18446744073709551615 tensors"});
  refuses(head(0, UINT64_MAX), {"byte 16", "keys"});
  refuses(head(1, 0), {"byte 8", "1 tensors"});
  refuses(head(0, 5000) + std::string(5000 * 13, 0), {"5000 keys", "4096"});
  const auto array = [](std::uint32_t type, std::uint64_t length) {
    return GgufFile().key("a", 9, raw(type) + raw(length) + std::string(64, 0)).bytes();
  };
  refuses(array(8, UINT64_MAX / 8), {"entries of an array"});
  refuses(array(0, UINT64_MAX), {"entries of an array"});
  refuses(array(99, 1), {"the type of an array 99"});
  refuses(GgufFile().key("a", 13, "").bytes(), {"the type of a value 13"});
  refuses(GgufFile().key("a", 8, raw(UINT64_MAX)).bytes(), {"18446744073709551615 bytes"});
}

TEST_F(Gguf, refusesMetadataThatMakeNoSense) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  refuses(GgufFile().key("a", 6, raw(nan)).bytes(), {"byte 37", "nan"});
  refuses(GgufFile().key("a", 12, raw(std::numeric_limits<double>::infinity())).bytes(), {"inf"});
  refuses(GgufFile().key("a", 7, "\x02").bytes(), {"truth value 2"});
  refuses(GgufFile().word("a", "\xff").bytes(), {"not UTF-8"});
  refuses(GgufFile().word("\xff", "a").bytes(), {"not UTF-8"});
  refuses(GgufFile().word("", "a").bytes(), {"key ''"});
  refuses(GgufFile().number("a", 1).number("a", 1).bytes(), {"'a'", "twice"});
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += raw(9u) + raw<std::uint64_t>(1);
  refuses(GgufFile().key("a", 9, deep).bytes(), {"nest deeper"});
}

TEST_F(Gguf, refusesTensorsThatContradictTheFile) {
  const auto entry = [](const GgufFile::Entry& one) {
    return GgufFile().entry(one).bytes() + std::string(64, 0);
  };
  EXPECT_EQ(open(entry({"x", {2, 8}, 0, 0}))->tensors()[0].shape,
            (std::vector<std::int64_t>{8, 2}));
  refuses(entry({"x", {17}, 0, 0}), {"'x'", "68 bytes", "cut short"});
  refuses(entry({"x", {1}, 0, 4}), {"'x'", "multiple of 32"});
  refuses(entry({"x", {1}, 0, UINT64_MAX - 31}), {"'x'", "cut short"});
  refuses(entry({"x", {1, 1, 1, 1, 1}, 0, 0}), {"5 dimensions"});
  refuses(entry({"x", {1}, 4, 0}), {"type 4"}, ErrorCode::unsupported);
  refuses(entry({"x", {31}, 2, 0}), {"Q4_0", "whole blocks of 32"});
  refuses(entry({"x", {32, 3}, 12, 0}), {"Q4_K", "whole blocks of 256"});
  refuses(entry({"x", {-1}, 0, 0}), {"negative"});
  refuses(entry({"x", {INT64_MAX, INT64_MAX}, 0, 0}), {"too many"});
  refuses(entry({"x", {INT64_MAX}, 28, 0}), {"too many"});
  refuses(entry({"", {1}, 0, 0}), {"name is empty"});
  refuses(entry({"\xff", {1}, 0, 0}), {"not UTF-8"});
  refuses(entry({"a\nb", {1}, 0, 0}), {"control characters"});
  refuses(GgufFile().entry({"x", {9}, 0, 0}).entry({"y", {8}, 0, 32}).bytes() + std::string(64, 0),
          {"'y'", "overlaps tensor 'x'"});
  refuses(GgufFile().entry({"x", {8}, 0, 0}).entry({"x", {8}, 0, 32}).bytes() + std::string(64, 0),
          {"'x'", "twice"});
}

}  // namespace
}  // namespace tessera::weights::gguf_test
