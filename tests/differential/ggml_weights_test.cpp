// The kernels' reader of GGUF's blocks against the engine's: the product with unit vectors gives
// the weights themselves.
#include "tessera/kernels/ggml_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "convert.h"
#include "tessera/kernels/info.h"

namespace tessera::weights::ggml_weights_test {
namespace {

struct Type {
  DType dtype;
  kernels::GgmlType ggml;
  std::vector<std::size_t> halves;  ///< where a block has its f16 numbers
};

std::vector<float> weights_of_kernel(const Type& type, const std::vector<std::uint8_t>& blocks,
                                     std::int64_t rows, std::int64_t columns) {
  const std::size_t bytes =
      static_cast<std::size_t>(kernels::ggml_weights_bytes(rows, columns, type.ggml));
  const std::unique_ptr<void, decltype(&std::free)> packed(
      std::aligned_alloc(64, (bytes + 63) / 64 * 64), std::free);
  std::vector<const void*> row_data;
  for (std::int64_t row = 0; row < rows; ++row) {
    row_data.push_back(blocks.data() + blocks.size() / static_cast<std::size_t>(rows) *
                                           static_cast<std::size_t>(row));
  }
  EXPECT_EQ(kernels::pack_ggml_weights(row_data.data(), rows, columns, type.ggml, {0, rows},
                                       packed.get()),
            kernels::Status::ok);
  std::vector<float> units(static_cast<std::size_t>(columns * columns));
  for (std::size_t k = 0; k < static_cast<std::size_t>(columns); ++k) {
    units[k * static_cast<std::size_t>(columns) + k] = 1;
  }
  std::vector<float> out(static_cast<std::size_t>(columns * rows));
  EXPECT_EQ(
      kernels::ggml_gemm({units.data(), kernels::Real::f32, columns, columns, columns},
                         {rows, columns, type.ggml, packed.get()}, {0, rows}, out.data(), rows),
      kernels::Status::ok);
  return out;
}

TEST(GgmlWeights, AreWhatTheEngineReads) {
  const char* text = std::getenv("TESSERA_TEST_SEED");
  const std::uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 20240607;
  std::mt19937_64 random(seed);
  const Type types[] = {{DType::q4_0, kernels::GgmlType::q4_0, {0}},
                        {DType::q4_1, kernels::GgmlType::q4_1, {0, 2}},
                        {DType::q8_0, kernels::GgmlType::q8_0, {0}},
                        {DType::q4_k, kernels::GgmlType::q4_k, {0, 2}},
                        {DType::q6_k, kernels::GgmlType::q6_k, {208}}};
  ASSERT_TRUE(kernels::use_isa("scalar"));  // sums in double: a product with 1 is exact
  for (const Type& type : types) {
    SCOPED_TRACE("TESSERA_TEST_SEED=" + std::to_string(seed) + ", " +
                 std::string(to_string(type.dtype)));
    constexpr std::int64_t kRows = 19, kColumns = 512;
    const std::int64_t num_blocks = kRows * kColumns / kernels::ggml_block_columns(type.ggml);
    const auto size = static_cast<std::size_t>(kernels::ggml_block_bytes(type.ggml));
    std::vector<std::uint8_t> blocks(static_cast<std::size_t>(num_blocks) * size);
    for (auto& byte : blocks) byte = static_cast<std::uint8_t>(random());
    for (std::size_t at = 0; at < blocks.size(); at += size) {
      for (const std::size_t half : type.halves) blocks[at + half + 1] &= 0xbf;  // below 2
    }
    std::vector<float> expected(kRows * kColumns);
    convert_blocks(type.dtype, reinterpret_cast<const std::byte*>(blocks.data()), num_blocks,
                   expected.data());
    const std::vector<float> got = weights_of_kernel(type, blocks, kRows, kColumns);
    float largest = 0;
    for (const float value : expected) largest = std::max(largest, std::fabs(value));
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t k = 0; k < kColumns; ++k) {
        const float value = expected[row * kColumns + k];
        if (type.halves.size() == 1) {
          ASSERT_EQ(got[k * kRows + row], value) << row << ", " << k;
        } else {  // the engine rounds before it adds the minimum
          ASSERT_NEAR(got[k * kRows + row], value, 0x1p-23f * largest) << row << ", " << k;
        }
      }
    }
  }
  kernels::use_isa(nullptr);
}

}  // namespace
}  // namespace tessera::weights::ggml_weights_test
