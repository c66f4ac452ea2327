#include <gtest/gtest.h>

#include <random>

#include "../../kernels/cuda/device/intrinsics.cuh"
#include "../../kernels/cuda/launch/runtime.h"

// The emulator's matrix instructions against plain products. The operands are put together here
// word for word as the PTX manual's figures of mma.m16n8k16 and mma.m16n8k32 have them.
namespace tessera::kernels::cuda::emulator_test {
namespace {

struct Product {
  std::uint16_t a[16][16], b[8][16];  // b by columns
  float c[16][8];
  std::int8_t a8[16][32], b8[8][32];
  int c8[16][8];
};

TESSERA_GLOBAL void multiply_kernel(Product* p) {
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  const auto pair = [](const std::uint16_t* at) { return at[0] | std::uint32_t{at[1]} << 16; };
  const std::uint32_t a[4] = {pair(&p->a[g][2 * t]), pair(&p->a[g + 8][2 * t]),
                              pair(&p->a[g][2 * t + 8]), pair(&p->a[g + 8][2 * t + 8])};
  float c[4] = {};
  mma_f16(c, a, pair(&p->b[g][2 * t]), pair(&p->b[g][2 * t + 8]));
  const auto four = [](const std::int8_t* at) {
    std::uint32_t word;
    std::memcpy(&word, at, 4);
    return word;
  };
  const std::uint32_t a8[4] = {four(&p->a8[g][4 * t]), four(&p->a8[g + 8][4 * t]),
                               four(&p->a8[g][4 * t + 16]), four(&p->a8[g + 8][4 * t + 16])};
  int c8[4] = {};
  mma_s8(c8, a8, four(&p->b8[g][4 * t]), four(&p->b8[g][4 * t + 16]));
  for (int i = 0; i < 4; ++i) {
    p->c[g + i / 2 * 8][2 * t + i % 2] = c[i];
    p->c8[g + i / 2 * 8][2 * t + i % 2] = c8[i];
  }
}

TEST(CudaEmulator, MultipliesMatrices) {
  std::mt19937_64 random(1);
  for (const int arch : {75, 80}) {
    cuda_emulator::arch = arch;
    for (int round = 0; round < 20; ++round) {
      Product p{};
      // Every other round the subnormal numbers that the decode kernels make of codes.
      for (auto& row : p.a)
        for (auto& v : row)
          v = round % 2 == 0 ? f32_to_f16(std::normal_distribution<float>()(random))
                             : static_cast<std::uint16_t>(random() % 256);
      for (auto& column : p.b)
        for (auto& v : column) v = f32_to_f16(std::normal_distribution<float>()(random));
      for (auto& row : p.a8)
        for (auto& v : row) v = static_cast<std::int8_t>(random());
      for (auto& column : p.b8)
        for (auto& v : column) v = static_cast<std::int8_t>(random());
      ASSERT_EQ(launch(multiply_kernel, dim3{1, 1, 1}, dim3{32, 1, 1}, 0, nullptr, &p), Status::ok);
      double largest = 0;
      for (const auto& row : p.a)
        for (const auto v : row) largest = std::max(largest, std::abs(double{f16_to_f32(v)}));
      for (int row = 0; row < 16; ++row)
        for (int column = 0; column < 8; ++column) {
          double sum = 0;
          int exact = 0;
          for (int k = 0; k < 16; ++k)
            sum += double{f16_to_f32(p.a[row][k])} * f16_to_f32(p.b[column][k]);
          for (int k = 0; k < 32; ++k) exact += p.a8[row][k] * p.b8[column][k];
          // Sixteen products and four sums are cut by at most a unit of the largest exponent, which
          // for subnormal factors is that of 2^-14.
          const double unit = std::ldexp(std::max(largest, std::ldexp(1.0, -14)) * 8, -22);
          EXPECT_NEAR(p.c[row][column], sum, 20 * unit) << row << ", " << column;
          EXPECT_EQ(p.c8[row][column], exact) << row << ", " << column;
        }
    }
  }
}

}  // namespace
}  // namespace tessera::kernels::cuda::emulator_test
