// Reading safetensors: every type, and every way in which a file can be wrong.
#include <cmath>
#include <limits>

#include "expect_error.h"
#include "folder.h"
#include "tessera/core/error.h"
#include "tessera/weights/weights.h"
#include "weight_files.h"

namespace tessera::weights::safetensors_test {
namespace {

using test::expect_error;
using test::raw;
using test::safetensors_file;

std::vector<float> all_of(const Weights& weights, const std::string& name) {
  const TensorInfo& tensor = weights.require(name);
  std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
  read_f32(weights, tensor, 0, values);
  return values;
}

class Safetensors : public test::FolderTest {
 protected:
  std::shared_ptr<const Weights> open(const std::string& content) const {
    return Weights::open(file("a.safetensors", content));
  }
  /// A file of one F32 tensor "x" of two elements, of which `header` says otherwise.
  void refuses(const std::string& header, const std::vector<std::string>& parts,
               ErrorCode code = ErrorCode::invalid_argument, std::string data = std::string(8, 1)) {
    std::vector<std::string> all = parts;
    all.push_back(path("a.safetensors"));
    expect_error(code, all, [&] { open(safetensors_file(header, data)); });
  }
};

TEST_F(Safetensors, listsItsTensorsByOffset) {
  const auto weights = open(safetensors_file(
      {{"b", "F16", {2, 3}, std::string(12, 0)}, {"a", "F32", {}, raw(2.5f)}}, {{"k", "v"}}));
  ASSERT_EQ(weights->tensors().size(), 2u);
  const TensorInfo& first = weights->tensors()[0];
  EXPECT_EQ(first.name, "b");
  EXPECT_EQ(first.dtype, DType::f16);
  EXPECT_EQ(first.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(first.size_bytes, 12u);
  EXPECT_EQ(weights->tensors()[1].offset_bytes, first.offset_bytes + 12);
  EXPECT_EQ(weights->metadata(), (Json{{"k", "v"}}));
  EXPECT_TRUE(weights->config().is_null());
  EXPECT_EQ(weights->size_bytes(), 16u);
  EXPECT_EQ(all_of(*weights, "a"), std::vector<float>{2.5f});
}

TEST_F(Safetensors, readsEveryTypeThatHasNumbers) {
  const std::vector<test::StoredTensor> tensors = {
      {"F64", "F64", {2}, raw<double>({-0.5, 3})},
      {"F32", "F32", {2}, raw<float>({-0.5f, 3})},
      {"F16", "F16", {2}, raw<std::uint16_t>({0xb800, 0x4200})},
      {"BF16", "BF16", {2}, raw<std::uint16_t>({0xbf00, 0x4040})},
      {"F8_E4M3", "F8_E4M3", {2}, raw<std::uint8_t>({0xb0, 0x44})},
      {"F8_E5M2", "F8_E5M2", {2}, raw<std::uint8_t>({0xb8, 0x42})},
      {"I64", "I64", {2}, raw<std::int64_t>({-7, 3})},
      {"I32", "I32", {2}, raw<std::int32_t>({-7, 3})},
      {"I16", "I16", {2}, raw<std::int16_t>({-7, 3})},
      {"I8", "I8", {2}, raw<std::int8_t>({-7, 3})},
      {"U64", "U64", {2}, raw<std::uint64_t>({7, 3})},
      {"U32", "U32", {2}, raw<std::uint32_t>({7, 3})},
      {"U16", "U16", {2}, raw<std::uint16_t>({7, 3})},
      {"U8", "U8", {2}, raw<std::uint8_t>({7, 3})},
      {"BOOL", "BOOL", {2}, raw<std::uint8_t>({1, 0})},
  };
  const auto weights = open(safetensors_file(tensors));
  for (const test::StoredTensor& tensor : tensors) {
    const char kind = tensor.dtype[0];
    const std::vector<float> expected = tensor.dtype == "BOOL" ? std::vector<float>{1, 0}
                                        : kind == 'I'          ? std::vector<float>{-7, 3}
                                        : kind == 'U'          ? std::vector<float>{7, 3}
                                                               : std::vector<float>{-0.5f, 3};
    EXPECT_EQ(all_of(*weights, tensor.name), expected) << tensor.dtype;
    EXPECT_STREQ(to_string(weights->find(tensor.name)->dtype), tensor.dtype.c_str());
  }
}

// The largest and smallest numbers of both forms, from Table 1 of Micikevicius et al.
TEST_F(Safetensors, readsTheEdgesOfEightBitFloats) {
  const auto weights =
      open(safetensors_file({{"a", "F8_E4M3", {4}, raw<std::uint8_t>({0x7e, 0x01, 0x7f, 0x08})},
                             {"b", "F8_E5M2", {4}, raw<std::uint8_t>({0x7b, 0x01, 0x7c, 0xfd})}}));
  const auto a = all_of(*weights, "a"), b = all_of(*weights, "b");
  EXPECT_EQ(a[0], 448.0f);
  EXPECT_EQ(a[1], 0x1p-9f);
  EXPECT_TRUE(std::isnan(a[2]));
  EXPECT_EQ(a[3], 0x1p-6f);
  EXPECT_EQ(b[0], 57344.0f);
  EXPECT_EQ(b[1], 0x1p-16f);
  EXPECT_EQ(b[2], std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(b[3]));
}

TEST_F(Safetensors, readsHalvesAtTheEdges) {
  const auto weights = open(safetensors_file(
      {{"h", "F16", {5}, raw<std::uint16_t>({0x7bff, 0x0001, 0x8000, 0xfc00, 0x7e00})}}));
  const auto h = all_of(*weights, "h");
  EXPECT_EQ(h[0], 65504.0f);
  EXPECT_EQ(h[1], 0x1p-24f);
  EXPECT_TRUE(h[2] == 0 && std::signbit(h[2]));
  EXPECT_EQ(h[3], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(h[4]));
}

TEST_F(Safetensors, readsPartsAndNothingBeyond) {
  const auto weights = open(safetensors_file({{"x", "F32", {2, 2}, raw<float>({1, 2, 3, 4})}}));
  std::vector<float> two(2);
  read_f32(*weights, weights->require("x"), 1, two);
  EXPECT_EQ(two, (std::vector<float>{2, 3}));
  for (const std::int64_t first : {std::int64_t{3}, std::int64_t{-1}, INT64_MAX}) {
    expect_error(ErrorCode::out_of_range, {"'x'", "of 4"},
                 [&] { read_f32(*weights, weights->require("x"), first, two); });
  }
  expect_error(ErrorCode::not_found, {"'y'", "'x'"}, [&] { weights->require("y"); });
}

TEST_F(Safetensors, takesEmptyTensorsAndNoTensors) {
  const auto weights = open(safetensors_file(
      {{"none", "F32", {0, 4}, ""}, {"x", "U8", {1}, "a"}, {"no", "I8", {0}, ""}}));
  EXPECT_EQ(all_of(*weights, "none").size(), 0u);
  EXPECT_EQ(all_of(*weights, "x"), std::vector<float>{97});
  EXPECT_EQ(open(safetensors_file("{}   ", ""))->tensors().size(), 0u);
}

TEST_F(Safetensors, listsTypesThatItDoesNotRead) {
  const auto weights = open(safetensors_file({{"c", "C64", {1}, std::string(8, 0)},
                                              {"f", "F4", {2, 2}, "ab"},
                                              {"e", "F8_E8M0", {3}, std::string("a\0\xff", 3)}}));
  const std::vector<float> powers = all_of(*weights, "e");
  EXPECT_EQ(powers[0], 0x1p-30f);
  EXPECT_EQ(powers[1], 0x1p-127f);
  EXPECT_TRUE(std::isnan(powers[2]));
  for (const char* name : {"c", "f"}) {
    expect_error(ErrorCode::unsupported, {name, to_string(weights->find(name)->dtype)},
                 [&] { all_of(*weights, name); });
  }
}

TEST_F(Safetensors, refusesLengthsThatCannotBe) {
  const std::string path = file("a.safetensors", "");
  const auto refuse = [&](const std::string& content, const std::vector<std::string>& parts) {
    file("a.safetensors", content);
    expect_error(ErrorCode::invalid_argument, parts, [&] { Weights::open(path); });
  };
  refuse("", {path, "byte 0", "8 bytes"});
  refuse("1234567", {path, "byte 7"});
  refuse(raw<std::uint64_t>(3) + "{}", {path, "byte 0", "header of 3 bytes", "10 bytes"});
  refuse(raw<std::uint64_t>(UINT64_MAX) + "{}", {path, "18446744073709551615"});
  refuse(raw<std::uint64_t>(UINT64_MAX - 7) + "{}", {path, "byte 0"});
  refuse(raw<std::uint64_t>(0) + "{}", {path, "byte 8", "'{'"});
  refuse(safetensors_file("[]", ""), {path, "byte 8", "'{'"});
}

TEST_F(Safetensors, refusesHeadersThatAreNoJson) {
  refuses("{\"x\":", {"byte 8", "not valid JSON"});
  refuses("{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}} {}",
          {"not valid JSON"});
  refuses("{\"\xff\":{}}", {"not valid JSON"});
  refuses("{\"x\":{\"shape\":[NaN]}}", {"not valid JSON"});
  refuses("{\"x\":[[[[[[1]]]]]]}", {"deeper"});
  refuses(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
              "x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
          {"'x'", "twice"});
  refuses(R"({"__metadata__":{"a":1}})", {"__metadata__", "'a'"});
  refuses(R"({"__metadata__":{"a":NaN}})", {"not valid JSON"});
  refuses(R"({"__metadata__":[]})", {"__metadata__"});
  refuses(R"({"":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", {"name is empty"});
  refuses("{\"a\\nb\":{}}", {"control characters"});
  refuses("{\"" + std::string(2000, 'n') + "\":{}}", {"2000 bytes"});
}

TEST_F(Safetensors, refusesTensorsThatContradictThemselves) {
  const auto header = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets, const std::string& more = "") {
    return "{\"x\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets +
           more + "}}";
  };
  EXPECT_EQ(open(safetensors_file(header("\"F32\"", "[2]", "[0,8]"), std::string(8, 1)))
                ->tensors()
                .size(),
            1u);
  refuses(header("\"F33\"", "[2]", "[0,8]"), {"'x'", "'F33'"}, ErrorCode::unsupported);
  refuses(header("\"Q4_0\"", "[2]", "[0,8]"), {"'Q4_0'"}, ErrorCode::unsupported);
  refuses(header("3", "[2]", "[0,8]"), {"dtype"});
  refuses(header("\"F16\"", "[2]", "[0,8]"), {"'x'", "[0, 8]", "4 bytes"});
  refuses(header("\"F32\"", "[-2]", "[0,8]"), {"'-2'", "shape"});
  refuses(header("\"F32\"", "[2.0]", "[0,8]"), {"'2.0'", "shape"});
  refuses(header("\"F32\"", "2", "[0,8]"), {"shape"});
  refuses(header("\"F32\"", "[18446744073709551615]", "[0,8]"), {"shape"});
  refuses(header("\"F32\"", "[4294967296,4294967296]", "[0,8]"), {"no size in bytes"});
  refuses(header("\"F64\"", "[4611686018427387904]", "[0,8]"), {"no size in bytes"});
  refuses(header("\"F64\"", "[4611686018427387904,0,4]", "[0,8]"), {"no size in bytes"});
  refuses(header("\"F4\"", "[3]", "[0,8]"), {"no size in bytes"});
  refuses(header("\"F32\"", "[2]", "[8,0]"), {"[8, 0]"});
  refuses(header("\"F32\"", "[2]", "[0]"), {"data_offsets"});
  refuses(header("\"F32\"", "[2]", "[0,\"8\"]"), {"data_offsets"});
  refuses(header("\"F32\"", "[2]", "[0,8]", ",\"strides\":[1]"), {"'strides'"});
  refuses("{\"x\":{\"dtype\":\"F32\",\"shape\":[2]}}", {"no data_offsets"});
  refuses("{\"x\":3}", {"'x'", "no JSON object"});
}

TEST_F(Safetensors, refusesBytesThatAreNotThereOrShared) {
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"x":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
           R"(},"y":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}";
  };
  const auto at = [&](std::size_t data) {
    return "byte " + std::to_string(8 + two("[0,4]", "[4,8]").size() + data);
  };
  refuses(two("[0,4]", "[4,8]"), {at(7), "cut short"}, ErrorCode::invalid_argument,
          std::string(7, 0));
  refuses(two("[0,4]", "[3,7]"), {at(3), "'y'", "overlaps", "'x'"}, ErrorCode::invalid_argument,
          std::string(7, 0));
  refuses(two("[0,4]", "[0,4]"), {at(0), "overlaps"}, ErrorCode::invalid_argument,
          std::string(4, 0));
  refuses(two("[0,4]", "[5,9]"), {at(4), "belong to no tensor"}, ErrorCode::invalid_argument,
          std::string(9, 0));
  refuses(two("[0,4]", "[4,8]"), {at(8), "after the last tensor"}, ErrorCode::invalid_argument,
          std::string(9, 0));
  const std::string far = "[9223372036854775800,9223372036854775804]";
  refuses(two("[0,4]", far), {"'y'", "cut short"});
}

// A file that promises a great deal must not cost a great deal: the whole list is checked against
// the file's size first.
TEST_F(Safetensors, keepsWhatItPromisesSmall) {
  const std::string header =
      R"({"x":{"dtype":"F64","shape":[1152921504606846975],"data_offsets":[0,9223372036854775800]}})";
  refuses(header, {"'x'"});
}

TEST_F(Safetensors, noticesThatAFileHasChanged) {
  const std::string content = safetensors_file({{"x", "F32", {2048}, std::string(8192, 0)}});
  const auto weights = open(content);
  const TensorInfo& x = weights->require("x");
  std::filesystem::resize_file(path("a.safetensors"), content.size() - 4096);
  expect_error(ErrorCode::io, {path("a.safetensors"), "when it was opened"},
               [&] { weights->bytes(x); });
}

TEST_F(Safetensors, givesPagesBackAndReadsThemAgain) {
  const auto weights =
      open(safetensors_file({{"x", "F32", {4096}, raw(std::vector<float>(4096, 1.5f))}}));
  EXPECT_EQ(all_of(*weights, "x")[4095], 1.5f);
  weights->release(weights->require("x"));
  EXPECT_EQ(all_of(*weights, "x")[4095], 1.5f);
}

}  // namespace
}  // namespace tessera::weights::safetensors_test
