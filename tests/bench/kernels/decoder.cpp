// The matrix products of a decoder, SmolLM2-135M: a token through all weights, which come from
// memory, and a prompt of 512 tokens.
#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "compare.h"
#include "tessera/kernels/dense.h"
#include "tessera/kernels/gemm.h"
#include "tessera/kernels/gemm_a8.h"
#include "tessera/kernels/ggml_weights.h"
#include "tessera/kernels/info.h"
#include "tessera/kernels/parallel.h"

namespace tessera::kernels::bench {
namespace {

struct Shape {
  std::int64_t n, k;
};
// Query, key and value in one; output; gate and up in one; down.
constexpr Shape kLayer[] = {{960, 576}, {576, 576}, {3072, 576}, {576, 1536}};
constexpr Shape kHead = {49152, 576};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<char, Free>;

/// One way of storing weights: its size, random contents, and the product with f32 activations or
/// with such of 8 bits (null: there is none).
struct Format {
  using Gemm = std::function<Status(Matrix, Shape, const void*, Rows, float*)>;
  std::string name;
  std::function<std::int64_t(Shape)> bytes;
  std::function<void(Shape, void*)> fill;
  Gemm gemm, gemm_a8;
};

std::mt19937_64 random_bits(20240607);

float small_number() { return 1e-3f * static_cast<float>(random_bits() % 1000 + 1); }

Format packed(const std::string& name, QuantFormat format) {
  const auto gemm = [format](auto function) {
    return [=](Matrix x, Shape s, const void* data, Rows rows, float* out) {
      return function(x, PackedWeights{s.n, s.k, format, data}, rows, out, s.n);
    };
  };
  const auto fill = [format](Shape s, void* data) {
    const auto count = static_cast<std::size_t>(s.n * num_groups(s.k, format.group_size));
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(s.n * s.k)), zero(count, 7);
    std::vector<float> scale(count);
    for (auto& code : codes) code = static_cast<std::uint8_t>(random_bits());
    for (auto& value : scale) value = small_number();
    pack_weights(codes.data(), s.n, s.k, format, scale.data(), zero.data(), {0, s.n}, data);
  };
  return {name, [format](Shape s) { return packed_weights_bytes(s.n, s.k, format); }, fill,
          gemm(dequant_gemm), gemm(dequant_gemm_a8)};
}

Format ggml(const std::string& name, GgmlType type, std::vector<int> halves) {
  const auto gemm = [type](auto function) {
    return [=](Matrix x, Shape s, const void* data, Rows rows, float* out) {
      return function(x, GgmlWeights{s.n, s.k, type, data}, rows, out, s.n);
    };
  };
  const auto fill = [type, halves](Shape s, void* data) {
    const std::int64_t size = ggml_block_bytes(type), blocks = s.k / ggml_block_columns(type);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(s.n * blocks * size));
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random_bits());
    for (std::int64_t block = 0; block < s.n * blocks; ++block) {
      for (const int half : halves) {
        const std::uint16_t bits = f32_to_f16(small_number());
        std::memcpy(bytes.data() + block * size + half, &bits, 2);
      }
    }
    std::vector<const void*> rows;
    for (std::int64_t r = 0; r < s.n; ++r) rows.push_back(bytes.data() + r * blocks * size);
    pack_ggml_weights(rows.data(), s.n, s.k, type, {0, s.n}, data);
  };
  return {name, [type](Shape s) { return ggml_weights_bytes(s.n, s.k, type); }, fill,
          gemm(ggml_gemm), gemm(ggml_gemm_a8)};
}

Format dense(const std::string& name, Real type) {
  const auto fill = [type](Shape s, void* data) {
    std::vector<float> values(static_cast<std::size_t>(s.n * s.k));
    for (float& value : values) value = small_number() - 0.5f;
    pack_dense_weights({values.data(), Real::f32, s.n, s.k, s.k}, type, {0, s.n}, data);
  };
  const auto gemm = [type](Matrix x, Shape s, const void* data, Rows rows, float* out) {
    return dense_gemm(x, DenseWeights{s.n, s.k, type, data}, rows, out, s.n);
  };
  return {name, [type](Shape s) { return dense_weights_bytes(s.n, s.k, type); }, fill, gemm, {}};
}

std::vector<float> activations(std::int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& value : x) value = normal(random_bits);
  return x;
}

struct Matrices {
  Matrices(const Format& f, const std::vector<Shape>& list) : format(f), shapes(list) {
    for (const Shape& s : shapes) {
      const std::int64_t size = (format.bytes(s) + 63) / 64 * 64;
      data.emplace_back(static_cast<char*>(std::aligned_alloc(64, static_cast<std::size_t>(size))));
      format.fill(s, data.back().get());
      bytes += size;
      operations += 2 * s.n * s.k;
    }
  }
  void multiply(const Format::Gemm& gemm, const std::vector<float>& x, std::int64_t tokens,
                int threads) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const Shape s = shapes[i];
      const std::int64_t part =
          threads == 1 ? s.n : (s.n / (2 * threads) + 63) / 64 * 64;  // whole blocks
      for_slices(threads, s.n, part, [&](std::int64_t a, std::int64_t b) {
        gemm({x.data(), Real::f32, tokens, s.k, s.k}, s, data[i].get(), {a, b}, out.data());
      });
    }
  }
  void read(int threads) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const std::int64_t all = format.bytes(shapes[i]) / 128 * 128;
      const std::int64_t part = threads == 1 ? all : (all / (2 * threads) / 128 + 1) * 128;
      for_slices(threads, all, part, [&](std::int64_t a, std::int64_t b) {
        sums[a / part % 16] += plain_sum(data[i].get() + a, b - a);
      });
    }
  }
  /// The last matrix's product against the scalar version's, some rows of it.
  void verify(const Format::Gemm& gemm, const std::vector<float>& x, std::int64_t tokens) {
    const Shape s = shapes.back();
    const std::int64_t few = tokens < 20 ? tokens : 20;
    std::vector<float> expected(static_cast<std::size_t>(few * s.n));
    const Matrix all{x.data(), Real::f32, tokens, s.k, s.k};
    gemm(all, s, data.back().get(), {s.n - 48, s.n}, out.data());
    use_isa("scalar");
    gemm({x.data(), Real::f32, few, s.k, s.k}, s, data.back().get(), {s.n - 48, s.n},
         expected.data());
    use_isa(nullptr);
    double error = 0, power = 0;
    for (std::int64_t t = 0; t < few; ++t) {
      for (std::int64_t row = s.n - 48; row < s.n; ++row) {
        const auto i = static_cast<std::size_t>(t * s.n + row);
        error += std::pow(double{out[i]} - double{expected[i]}, 2);
        power += std::pow(double{expected[i]}, 2);
      }
    }
    check(error / power < 1e-9, format.name);
  }

  const Format& format;
  std::vector<Shape> shapes;
  std::vector<Memory> data;
  std::vector<float> out = std::vector<float>(std::size_t{512} * 3072);
  std::int64_t bytes = 0, operations = 0;
  std::int64_t sums[16] = {};
};

void decode(const Format& format, const std::vector<Shape>& shapes, const std::string& what,
            int rounds) {
  Matrices m(format, shapes);
  const std::vector<float> x = activations(1536);
  for (const int threads : {1, 2}) {
    const auto bytes = static_cast<double>(m.bytes), operations = static_cast<double>(m.operations);
    std::vector<Contender> contenders;
    contenders.push_back({"plain sum of the same bytes", [&] { m.read(threads); }, bytes, 0});
    contenders.push_back(
        {"f32 activations", [&] { m.multiply(format.gemm, x, 1, threads); }, bytes, operations});
    if (format.gemm_a8) {
      contenders.push_back({"int8 activations", [&] { m.multiply(format.gemm_a8, x, 1, threads); },
                            bytes, operations});
    }
    compare("1 token, " + what + ", " + format.name, threads, rounds, contenders);
  }
  m.verify(format.gemm, x, 1);
  if (format.gemm_a8) m.verify(format.gemm_a8, x, 1);
}

/// Multiplications and additions as fast as they go with AVX2; returns how many.
[[gnu::target("avx2,fma")]] double fma_peak() {
  constexpr int kSums = 12, kRounds = 4'000'000;
  __m256 sums[kSums];
  for (auto& sum : sums) sum = _mm256_set1_ps(1);
  __m256 x = _mm256_set1_ps(0.999f);
  for (int i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (auto& sum : sums) sum = _mm256_fmadd_ps(sum, x, x);
    asm volatile("" : "+x"(x));
  }
  for (int i = 1; i < kSums; ++i) sums[0] = _mm256_add_ps(sums[0], sums[i]);
  check(_mm256_cvtss_f32(sums[0]) > 0, "sums of products");
  return 16.0 * kSums * kRounds;
}

void prefill(const std::vector<Format>& formats, int rounds) {
  constexpr std::int64_t kTokens = 512;
  const std::vector<float> x = activations(kTokens * 1536);
  std::vector<std::unique_ptr<Matrices>> all;
  std::vector<Contender> contenders;
  contenders.push_back({"multiply-adds alone, AVX2", fma_peak, 0, fma_peak()});
  for (const Format& format : formats) {
    all.push_back(std::make_unique<Matrices>(format, std::vector<Shape>(kLayer, std::end(kLayer))));
    Matrices& m = *all.back();
    const double operations = static_cast<double>(m.operations) * kTokens;
    contenders.push_back({format.name + ", f32 activations",
                          [&] { m.multiply(format.gemm, x, kTokens, 1); }, 0, operations});
    m.verify(format.gemm, x, kTokens);
    if (!format.gemm_a8) continue;
    contenders.push_back({format.name + ", int8 activations",
                          [&] { m.multiply(format.gemm_a8, x, kTokens, 1); }, 0, operations});
    m.verify(format.gemm_a8, x, kTokens);
  }
  compare("512 tokens through a layer", 1, rounds, contenders);
}

}  // namespace

void bench_decoder(bool quick) {
  const int rounds = quick ? 3 : 9;
  const Format q4_0 = ggml("Q4_0", GgmlType::q4_0, {0}),
               q4_1 = ggml("Q4_1", GgmlType::q4_1, {0, 2}),
               q8_0 = ggml("Q8_0", GgmlType::q8_0, {0}),
               group_32 = packed("4 bits, group 32", {4, true, 32, Real::f16}),
               group_128 = packed("4 bits, group 128", {4, true, 128, Real::f16}),
               three = packed("3 bits, group 32", {3, true, 32, Real::f16}),
               f32 = dense("f32", Real::f32), f16 = dense("f16", Real::f16),
               bf16 = dense("bf16", Real::bf16);
  std::vector<Shape> layers;
  for (int i = 0; i < 30; ++i) layers.insert(layers.end(), kLayer, std::end(kLayer));
  for (const Format& f : {q4_1, q4_0, group_32, group_128}) {
    decode(f, layers, "30 layers", rounds);
  }
  for (const Format& f : {q8_0, f16, bf16}) decode(f, {kHead}, "49152 x 576", rounds);
  prefill({q4_1, q8_0, group_32, group_128, three, f32, f16, bf16}, rounds);
}

}  // namespace tessera::kernels::bench
