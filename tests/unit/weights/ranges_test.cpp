// Ranges that are read where the weights lie, against those of the weights read as numbers.
#include "tessera/weights/ranges.h"

#include <cmath>
#include <limits>
#include <random>

#include "folder.h"
#include "tessera/core/error.h"
#include "tessera/kernels/quantise.h"
#include "weight_files.h"

namespace tessera::weights::ranges_test {
namespace {

using kernels::Range;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t kRows = 7, kColumns = 768;

struct Type {
  std::uint32_t ggml;
  std::vector<int> scales;  ///< where in a block its f16 numbers are
};
// Of 24 blocks of 32 or 3 of 256 in a row: several batches, the last one not full.
const std::vector<Type> kTypes = {{0, {}},     {1, {}},  {30, {}},     {2, {0}},
                                  {3, {0, 2}}, {8, {0}}, {12, {0, 2}}, {14, {208}}};

// Smallest and largest of what read_linear_rows_f32 gives.
std::vector<Range> expected_ranges(const Weights& weights, const LinearWeight& linear,
                                   std::int64_t first, std::int64_t rows, std::int64_t group) {
  const std::int64_t columns = linear.in_features;
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  read_linear_rows_f32(weights, linear, first, rows, values);
  std::vector<Range> ranges;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t at = 0; at < columns; at += group) {
      Range range{INFINITY, -INFINITY};
      for (std::int64_t i = at; i < std::min(at + group, columns); ++i) {
        const float value = values[static_cast<std::size_t>(row * columns + i)];
        if (!std::isfinite(value)) range = {kNaN, kNaN};
        if (value < range.min) range.min = value;
        if (value > range.max) range.max = value;
      }
      ranges.push_back(range);
    }
  }
  return ranges;
}

class WeightRanges : public test::FolderTest {
 protected:
  // Random bytes, but numbers and scales of moderate size and both signs; those of `strange` blocks
  // are NaN, infinite or denormal.
  static std::string content_of(const Type& type, int strange) {
    const DTypeInfo& info = info_of(*dtype_of_ggml(type.ggml));
    const std::int64_t blocks = kRows * kColumns / info.block_elements;
    std::mt19937 random(type.ggml + 5);
    const auto half = [&random](bool odd) {
      constexpr std::uint16_t kStrange[] = {0x7c00, 0xfc00, 0x7e01, 0x0001, 0x8003, 0x0000};
      const auto draw = static_cast<std::uint32_t>(random());
      return odd ? kStrange[draw % std::size(kStrange)]
                 : static_cast<std::uint16_t>((draw & 0x8000) | (0x2000 + (draw >> 16 & 0x1fff)));
    };
    std::string all;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const bool odd = strange > 0 && random() % static_cast<unsigned>(strange) == 0;
      std::string block(static_cast<std::size_t>(info.block_bytes), 0);
      for (char& byte : block) byte = static_cast<char>(random());
      if (type.scales.empty()) {  // one number
        const float value = std::ldexp(static_cast<float>(random() % 2000) - 1000, -5);
        block = info.dtype == DType::f32   ? test::raw(value)
                : info.dtype == DType::f16 ? test::raw(half(odd))
                                           : test::raw(value).substr(2);
      }
      for (const int at : type.scales) {
        block.replace(static_cast<std::size_t>(at), 2, test::raw(half(odd)));
      }
      all += block;
    }
    return all;
  }

  void expect_same(const Weights& weights, const LinearWeight& linear, std::int64_t first,
                   std::int64_t rows) {
    for (const std::int64_t group : {0, 16, 32, 40, 48, 128, 256, 320, 768, 9000}) {
      const std::int64_t width = group == 0 ? linear.in_features : group;
      const auto expected = expected_ranges(weights, linear, first, rows, width);
      std::vector<Range> found(expected.size(), {1, -1});
      ranges_of_rows(weights, linear, first, rows, group, found);
      for (std::size_t i = 0; i < found.size(); ++i) {
        const bool both_nan =
            std::isnan(expected[i].min) && std::isnan(found[i].min) && std::isnan(found[i].max);
        ASSERT_TRUE(both_nan ||
                    (found[i].min == expected[i].min && found[i].max == expected[i].max))
            << to_string(linear.tensor->dtype) << ", groups of " << group << ", range " << i << ": "
            << found[i].min << " to " << found[i].max << ", not " << expected[i].min << " to "
            << expected[i].max;
        num_nan_ += both_nan;
      }
    }
  }

  static LinearWeight linear_in(const TensorInfo& tensor) {
    return {.linear = "q_proj",
            .tensor = &tensor,
            .num_rows = kRows,
            .in_features = kColumns,
            .stored_rows = kRows,
            .block_rows = kRows,
            .block_stride = kRows};
  }

  int num_nan_ = 0;
};

TEST_F(WeightRanges, AreThoseOfTheNumbersInEveryType) {
  for (const int strange : {0, 20}) {
    test::GgufFile content;
    for (const Type& type : kTypes) {
      content.tensor(std::to_string(type.ggml), {kColumns, kRows}, type.ggml,
                     content_of(type, strange));
    }
    const auto weights = Weights::open(file("a.gguf", content.bytes()));
    ASSERT_EQ(weights->tensors().size(), kTypes.size());
    for (const TensorInfo& tensor : weights->tensors()) {
      expect_same(*weights, linear_in(tensor), 0, kRows);
      expect_same(*weights, linear_in(tensor), 3, 2);
      expect_same(*weights, linear_in(tensor), 6, 1);
      ranges_of_rows(*weights, linear_in(tensor), 4, 0, 32, {});
    }
    EXPECT_EQ(num_nan_ > 0, strange > 0);
  }
}

// Rows of a fused tensor, transposed, and one of a stack of experts.
TEST_F(WeightRanges, AreThoseOfTheRowsWhereverTheyAre) {
  const Type q4_1 = kTypes[4], f16 = kTypes[1];
  test::GgufFile content;
  content.tensor("blocks", {kColumns, kRows}, 3, content_of(q4_1, 0));
  content.tensor("halves", {kRows, kColumns}, 1, content_of(f16, 0));
  const auto weights = Weights::open(file("a.gguf", content.bytes()));
  LinearWeight rows = linear_in(weights->require("blocks"));
  rows.first_row = 2;
  rows.num_rows = rows.block_rows = 4;
  expect_same(*weights, rows, 0, 4);
  expect_same(*weights, rows, 1, 2);
  LinearWeight apart = rows;  // rows 2, 3 and 5, 6
  apart.block_rows = 2;
  apart.block_stride = 3;
  expect_same(*weights, apart, 0, 4);
  expect_same(*weights, apart, 1, 2);
  LinearWeight second = linear_in(weights->require("blocks"));
  second.offset = 3 * kColumns;
  second.num_rows = second.block_rows = second.stored_rows = 3;
  expect_same(*weights, second, 0, 3);
  LinearWeight transposed = linear_in(weights->require("halves"));
  transposed.transposed = true;
  expect_same(*weights, transposed, 0, kRows);
}

TEST_F(WeightRanges, RefuseRowsThatThereAreNotAndTypesThatAreNotRead) {
  test::GgufFile content;
  content.tensor("blocks", {kColumns, kRows}, 3, content_of(kTypes[4], 0));
  content.tensor("Q8_1", {kColumns, kRows}, 9, std::string(36 * 24 * kRows, 1));
  const auto weights = Weights::open(file("a.gguf", content.bytes()));
  const LinearWeight linear = linear_in(weights->require("blocks"));
  std::vector<Range> out(kRows);
  EXPECT_THROW(ranges_of_rows(*weights, linear, 1, kRows, 0, out), Error);
  EXPECT_THROW(ranges_of_rows(*weights, linear, 0, kRows - 1, 0, out), Error);
  EXPECT_THROW(ranges_of_rows(*weights, linear, -1, kRows, 0, out), Error);
  EXPECT_THROW(ranges_of_rows(*weights, linear, 0, kRows, 32, out), Error);
  try {
    ranges_of_rows(*weights, linear_in(weights->require("Q8_1")), 0, kRows, 0, out);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
  }
}

}  // namespace
}  // namespace tessera::weights::ranges_test
