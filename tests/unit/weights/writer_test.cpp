// Writing safetensors: what is written reads back, and nothing half-written is ever seen.
#include "tessera/weights/writer.h"

#include <cstring>

#include "expect_error.h"
#include "folder.h"
#include "tessera/core/error.h"
#include "tessera/core/rng.h"
#include "tessera/weights/weights.h"
#include "weight_files.h"

namespace tessera::weights::writer_test {
namespace {

using test::expect_error;
using Shape = std::vector<std::int64_t>;

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

const std::vector<TensorSpec> kMixed = {{"odd", DType::u8, {3}},
                                        {"half", DType::f16, {5}},
                                        {"empty", DType::f32, {0}},
                                        {"wide", DType::f64, {2}},
                                        {"scalar", DType::i32, {}}};

std::string content_of(const TensorSpec& spec, Rng& rng) {
  std::string content(static_cast<std::size_t>(*size_bytes(spec.dtype, spec.shape)), '\0');
  for (char& c : content) c = static_cast<char>(rng.integer(0, 255));
  return content;
}

class Writer : public test::FolderTest {
 protected:
  std::string out() const { return path("model.safetensors"); }

  /// Writes, each tensor in pieces and the last tensor first. Returns what went in.
  std::map<std::string, std::string> write(const std::vector<TensorSpec>& specs,
                                           const WriterOptions& options = {}) const {
    Rng rng(7);
    std::map<std::string, std::string> contents;
    for (const TensorSpec& spec : specs) contents[spec.name] = content_of(spec, rng);
    SafetensorsWriter writer(out(), specs, options);
    for (auto spec = specs.rbegin(); spec != specs.rend(); ++spec) {
      const std::string& content = contents[spec->name];
      writer.append(spec->name, bytes_of(content.substr(0, content.size() / 3)));
      writer.append(spec->name, bytes_of(content.substr(content.size() / 3)));
    }
    writer.finish();
    EXPECT_EQ(writer.files().size(), num_files());
    return contents;
  }
};

TEST_F(Writer, roundTrips) {
  const auto contents = write(kMixed, {.metadata = {{"format", "pt"}, {"note", "\"ä\"\n"}}});
  const auto weights = Weights::open(folder_.string());
  EXPECT_EQ(weights->metadata(), (Json{{"format", "pt"}, {"note", "\"ä\"\n"}}));
  ASSERT_EQ(weights->tensors().size(), kMixed.size());
  for (const TensorSpec& spec : kMixed) {
    const TensorInfo& tensor = weights->require(spec.name);
    EXPECT_EQ(tensor.dtype, spec.dtype);
    EXPECT_EQ(tensor.shape, spec.shape);
    EXPECT_EQ(text_of(weights->bytes(tensor)), contents.at(spec.name));
    EXPECT_EQ(tensor.offset_bytes % static_cast<std::uint64_t>(info_of(spec.dtype).block_bytes), 0u)
        << spec.name << " is not aligned";
  }
  EXPECT_EQ(weights->tensors().front().offset_bytes % 64, 0u);
}

TEST_F(Writer, writesTheSameBytesAgain) {
  write(kMixed, {.metadata = {{"a", "1"}, {"b", "2"}}});
  const std::string first = read(out());
  write(kMixed, {.metadata = {{"b", "2"}, {"a", "1"}}});
  EXPECT_EQ(read(out()), first);
}

TEST_F(Writer, splitsIntoShardsOfTheSizeAskedFor) {
  const std::vector<TensorSpec> specs = {{"b", DType::f32, {10}},
                                         {"a", DType::f32, {10}},
                                         {"large", DType::f32, {100}},
                                         {"c", DType::f32, {10}}};
  const auto contents = write(specs, {.metadata = {{"format", "pt"}}, .max_shard_bytes = 80});
  EXPECT_EQ(num_files(), 4u);
  const Json index = read_json_file(path("model.safetensors.index.json"));
  EXPECT_EQ(index.dump(), R"({"metadata":{"total_size":520},"weight_map":{)"
                          R"("a":"model-00001-of-00003.safetensors",)"
                          R"("b":"model-00001-of-00003.safetensors",)"
                          R"("c":"model-00003-of-00003.safetensors",)"
                          R"("large":"model-00002-of-00003.safetensors"}})");
  const auto weights = Weights::open(folder_.string());
  EXPECT_EQ(weights->names(), (std::vector<std::string>{"b", "a", "large", "c"}));
  for (const auto& [name, content] : contents) {
    EXPECT_EQ(text_of(weights->bytes(weights->require(name))), content);
  }
}

TEST_F(Writer, keepsOneFileWhereAllFits) {
  write({{"a", DType::f32, {10}}, {"b", DType::f32, {10}}}, {.max_shard_bytes = 80});
  EXPECT_EQ(num_files(), 1u);
}

TEST_F(Writer, writesNoTensorsToo) {
  write({});
  EXPECT_EQ(Weights::open(out())->tensors().size(), 0u);
}

TEST_F(Writer, leavesTheOldFileUntilItIsDone) {
  file("model.safetensors", "old");
  {
    SafetensorsWriter writer(out(), {{"a", DType::u8, {2}}});
    writer.append("a", bytes_of("x"));
    EXPECT_EQ(read(out()), "old");
    expect_error(ErrorCode::internal, {"'a'", "1 of 2 bytes"}, [&] { writer.finish(); });
  }
  EXPECT_EQ(read(out()), "old");
  EXPECT_EQ(num_files(), 1u) << "a temporary file was left behind";
}

TEST_F(Writer, refusesBytesThatWereNotDeclared) {
  SafetensorsWriter writer(out(), {{"a", DType::u8, {2}}});
  expect_error(ErrorCode::internal, {"'b'"}, [&] { writer.append("b", bytes_of("x")); });
  expect_error(ErrorCode::internal, {"'a'", "3 bytes after 0 of 2"},
               [&] { writer.append("a", bytes_of("xyz")); });
}

TEST_F(Writer, refusesTensorsThatNoFileCanHold) {
  const auto refuse = [&](const std::vector<TensorSpec>& specs,
                          const std::vector<std::string>& parts) {
    expect_error(ErrorCode::invalid_argument, parts, [&] { SafetensorsWriter(out(), specs); });
    EXPECT_EQ(num_files(), 0u);
  };
  refuse({{"a", DType::u8, {2}}, {"a", DType::u8, {2}}}, {"'a'", "twice"});
  refuse({{"", DType::u8, {2}}}, {"name"});
  refuse({{"a\n", DType::u8, {2}}}, {"control characters"});
  refuse({{std::string(1025, 'a'), DType::u8, {2}}}, {"1025 bytes", "1024"});
  refuse({{"a", DType::u8, Shape(33, 1)}}, {"33 dimensions", "32"});
  refuse({{"__metadata__", DType::u8, {2}}}, {"__metadata__"});
  refuse({{"\xff", DType::u8, {2}}}, {"UTF-8"});
  refuse({{"a", DType::q4_0, {32}}}, {"'a'", "Q4_0"});
  refuse({{"a", DType::f4, {3}}}, {"'a'", "no size"});
  refuse({{"a", DType::f64, {INT64_MAX}}}, {"'a'", "no size"});
  refuse({{"a", DType::f64, {-1}}}, {"'a'", "no size"});
  expect_error(ErrorCode::invalid_argument, {"UTF-8"}, [&] {
    SafetensorsWriter(out(), {}, {.metadata = {{"a", "\xff"}}});
  });
}

TEST_F(Writer, refusesFoldersThatWouldBeReadOtherwise) {
  expect_error(ErrorCode::not_found, {"none/model.safetensors"}, [&] {
    SafetensorsWriter(path("none/model.safetensors"), {{"a", DType::u8, {2}}});
  });
  file("model.safetensors.index.json", "{}");
  expect_error(ErrorCode::invalid_argument, {"model.safetensors.index.json", "remove it"}, [&] {
    SafetensorsWriter(out(), {{"a", DType::u8, {2}}});
  });
}

}  // namespace
}  // namespace tessera::weights::writer_test
