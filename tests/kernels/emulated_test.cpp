// A version that few machines can run, compiled against emulated intrinsics
// (emulated/immintrin.h), beside the scalar one.
#include "support.h"
#include "tessera/kernels/int8.h"
#include "versions.h"

// As avx512.h declares it, under the name that CMakeLists.txt gives it.
namespace tessera::kernels::cpu::emulated_avx512 {
void int8_gemm(const Int8Product&);
}  // namespace tessera::kernels::cpu::emulated_avx512

namespace tessera::kernels::emulated_test {
namespace {

using test::Guarded;

class EmulatedInt8 : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(use_isa("scalar")); }
  void TearDown() override { use_isa(nullptr); }
};

std::vector<std::int8_t> random_codes(std::int64_t count, std::uint64_t stream) {
  std::mt19937_64 random(test::seed() + stream);
  std::vector<std::int8_t> codes(static_cast<std::size_t>(count));
  for (auto& code : codes) code = static_cast<std::int8_t>(static_cast<int>(random() % 255) - 127);
  return codes;
}

TEST_F(EmulatedInt8, GivesTheBitsOfTheScalarVersion) {
  for (const std::int64_t tokens : {1, 4, 5, 16, 17, 33, 260}) {
    for (const std::int64_t rows : {1, 16, 17, 48, 70}) {
      for (const std::int64_t columns : {1, 5, 63, 64, 65, 200}) {
        SCOPED_TRACE(std::to_string(tokens) + "x" + std::to_string(rows) + "x" +
                     std::to_string(columns) + ", " + test::seed_line());
        const auto x = random_codes(tokens * columns, 1), w = random_codes(rows * columns, 2);
        const std::vector<float> x_scale = test::normal_values(tokens, 3);
        const std::vector<float> w_scale = test::normal_values(rows, 4);
        Guarded<std::int8_t> packed(int8_weights_bytes(rows, columns));
        ASSERT_EQ(pack_int8_weights(w.data(), rows, columns, {0, rows}, packed.data()), Status::ok);
        const Int8Weights weights{rows, columns, packed.data(), w_scale.data()};
        const std::int64_t stride = rows + 1, first = rows / 32 * 16;
        Guarded<float> got(tokens * stride), expected(tokens * stride);
        ASSERT_EQ(int8_gemm(x.data(), x_scale.data(), tokens, weights, {first, rows},
                            expected.data(), stride),
                  Status::ok);
        cpu::emulated_avx512::int8_gemm(
            {x.data(), x_scale.data(), tokens, weights, {first, rows}, got.data(), stride});
        ASSERT_EQ(got.num_touched(), 0);
        // Gaps and rows outside the slice are poison in both.
        ASSERT_EQ(std::memcmp(got.data(), expected.data(),
                              static_cast<std::size_t>(tokens * stride) * sizeof(float)),
                  0);
      }
    }
  }
}

}  // namespace
}  // namespace tessera::kernels::emulated_test
