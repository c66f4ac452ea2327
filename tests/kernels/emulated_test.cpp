// The versions that no machine at hand can run, compiled against emulated intrinsics
// (emulated/immintrin.h), beside the scalar ones.
#include "support.h"
#include "tessera/kernels/gemm.h"
#include "tessera/kernels/int8.h"
#include "tessera/kernels/quantise.h"
#include "versions.h"

// As avx512.h and amx.h declare them, under the names that CMakeLists.txt gives them.
namespace tessera::kernels::cpu {
namespace emulated_avx512 {
void int8_gemm(const Int8Product&);
void dequant_gemm(Matrix, CodedWeights, Rows, float*, std::int64_t);
}  // namespace emulated_avx512
namespace emulated_amx {
void int8_gemm(const Int8Product&);
}
}  // namespace tessera::kernels::cpu

namespace tessera::kernels {
namespace {

using test::Guarded;
using test::Stored;

struct Emulated {
  const char* isa;
  decltype(&cpu::emulated_amx::int8_gemm) int8_gemm;
};
void PrintTo(const Emulated& emulated, std::ostream* stream) { *stream << emulated.isa; }

class EmulatedInt8 : public testing::TestWithParam<Emulated> {
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

TEST_P(EmulatedInt8, GivesTheBitsOfTheScalarVersion) {
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
        GetParam().int8_gemm(
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

INSTANTIATE_TEST_SUITE_P(Isa, EmulatedInt8,
                         testing::Values(Emulated{"Avx512Vnni", cpu::emulated_avx512::int8_gemm},
                                         Emulated{"AmxInt8", cpu::emulated_amx::int8_gemm}),
                         [](const auto& test) { return std::string(test.param.isa); });

TEST(EmulatedDequantGemm, IsNearTheScalarVersion) {
  ASSERT_TRUE(use_isa("scalar"));
  for (const int bitwidth : {3, 4, 8}) {
    for (const std::int64_t tokens : {1, 2, 3, 4, 7}) {
      for (const Real type : {Real::f32, Real::f16, Real::bf16}) {
        constexpr std::int64_t kRows = 37, kColumns = 300;
        const QuantFormat format{bitwidth, tokens % 2 == 0, 64, Real::f16};
        Stored weight(test::normal_values(kRows * kColumns, 5), Real::f32);
        Stored x(test::normal_values(tokens * kColumns, 6), type);
        const Matrix matrix{weight.memory.data(), Real::f32, kRows, kColumns, kColumns};
        const std::int64_t groups = kRows * num_groups(kColumns, 64);
        std::vector<float> scale(static_cast<std::size_t>(groups));
        std::vector<std::uint8_t> zero(scale.size()), codes(kRows * kColumns);
        ASSERT_EQ(choose_scales(matrix, {0, kRows}, format, scale.data(), zero.data()), Status::ok);
        ASSERT_EQ(quantise(matrix, {0, kRows}, format, scale.data(), zero.data(), Rounding::nearest,
                           0, codes.data()),
                  Status::ok);
        Guarded<unsigned char> packed(packed_weights_bytes(kRows, kColumns, format));
        ASSERT_EQ(pack_weights(codes.data(), kRows, kColumns, format, scale.data(), zero.data(),
                               {0, kRows}, packed.data()),
                  Status::ok);
        const PackedWeights weights{kRows, kColumns, format, packed.data()};
        const Matrix activations{x.memory.data(), type, tokens, kColumns, kColumns};
        Guarded<float> got(tokens * kRows);
        std::vector<float> expected(static_cast<std::size_t>(tokens * kRows));
        ASSERT_EQ(dequant_gemm(activations, weights, {0, kRows}, expected.data(), kRows),
                  Status::ok);
        cpu::emulated_avx512::dequant_gemm(activations, cpu::coded(weights), {0, kRows}, got.data(),
                                           kRows);
        ASSERT_EQ(got.num_touched(), 0);
        const std::vector<double> reference(expected.begin(), expected.end());
        EXPECT_LT(test::nmse(got.copy(), reference), 1e-11) << bitwidth << " bits";
      }
    }
  }
  use_isa(nullptr);
}

}  // namespace
}  // namespace tessera::kernels
