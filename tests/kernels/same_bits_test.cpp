// A token's outputs have the same bits with any number of tokens beside it and in any slice of the
// outputs, for one version of the kernels.
#include <functional>

#include "ggml_blocks.h"
#include "packed_weights.h"
#include "tessera/kernels/dense.h"
#include "tessera/kernels/gemm_a8.h"

namespace tessera::kernels::same_bits_test {
namespace {

using Product = std::function<Status(Matrix, Rows, float*)>;

constexpr std::int64_t kRows = 117;

void expect_same_bits(std::int64_t columns, const std::string& what, const Product& product) {
  SCOPED_TRACE(what);
  constexpr std::int64_t kTokens = 70;
  const std::vector<float> x = test::normal_values(kTokens * columns, 11, 0.2, 1);
  std::vector<float> all(kTokens * kRows), some(all.size());
  ASSERT_EQ(product({x.data(), Real::f32, kTokens, columns, columns}, {0, kRows}, all.data()),
            Status::ok);
  std::int64_t count = 1;
  for (std::int64_t token = 0; token < kTokens; token += count++) {
    count = std::min(count, kTokens - token);
    const Matrix part{x.data() + token * columns, Real::f32, count, columns, columns};
    const std::int64_t half = count % 2 == 0 ? 32 : 80;
    for (const Rows rows : {Rows{0, half}, Rows{half, kRows}}) {
      ASSERT_EQ(product(part, rows, some.data()), Status::ok);
    }
    for (std::int64_t i = 0; i < count * kRows; ++i) {
      ASSERT_EQ(std::memcmp(&some[static_cast<std::size_t>(i)],
                            &all[static_cast<std::size_t>(token * kRows + i)], sizeof(float)),
                0)
          << count << " tokens from " << token << ", row " << i % kRows;
    }
  }
}

TEST(SameBits, InPackedWeights) {
  test::for_each_isa([](const std::string&) {
    for (const int bitwidth : {3, 4, 8}) {
      for (const std::int64_t group : {0, 5, 32, 48, 128}) {
        for (const std::int64_t columns : {100, 1000}) {
          test::PackedRandomWeights w(kRows, columns, {bitwidth, group % 3 == 0, group, Real::f16},
                                      1);
          const auto with = [&](auto gemm) {
            return [&w, gemm](Matrix x, Rows rows, float* out) {
              return gemm(x, w.packed(), rows, out, kRows);
            };
          };
          const std::string what =
              std::to_string(bitwidth) + " bits, group " + std::to_string(group);
          expect_same_bits(columns, what, with(dequant_gemm));
          expect_same_bits(columns, what + ", a8", with(dequant_gemm_a8));
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  });
}

TEST(SameBits, InGgmlWeights) {
  test::for_each_isa([](const std::string&) {
    for (const GgmlType type : test::ggml_types()) {
      test::RandomGgmlWeights w(kRows, 768, type, 2);
      const auto with = [&](auto gemm) {
        return [&w, gemm](Matrix x, Rows rows, float* out) {
          return gemm(x, w.packed(), rows, out, kRows);
        };
      };
      const std::string what = "type " + std::to_string(static_cast<int>(type));
      expect_same_bits(768, what, with(ggml_gemm));
      expect_same_bits(768, what + ", a8", with(ggml_gemm_a8));
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(SameBits, InDenseWeights) {
  test::for_each_isa([](const std::string&) {
    for (const Real type : {Real::f32, Real::f16, Real::bf16}) {
      for (const std::int64_t columns : {37, 1000}) {
        const std::vector<float> values = test::normal_values(kRows * columns, 3);
        test::Guarded<unsigned char> data(dense_weights_bytes(kRows, columns, type));
        ASSERT_EQ(pack_dense_weights({values.data(), Real::f32, kRows, columns, columns}, type,
                                     {0, kRows}, data.data()),
                  Status::ok);
        expect_same_bits(columns, "type " + std::to_string(static_cast<int>(type)),
                         [&](Matrix x, Rows rows, float* out) {
                           const DenseWeights w{kRows, columns, type, data.data()};
                           return dense_gemm(x, w, rows, out, kRows);
                         });
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

}  // namespace
}  // namespace tessera::kernels::same_bits_test
