// 4-bit weights times one token, against reading the same bytes and against llama.cpp's Q4_0.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "compare.h"
#include "tessera/kernels/gemm.h"
#include "tessera/kernels/gemm_a8.h"
#include "tessera/kernels/parallel.h"

namespace tessera::kernels::bench {
namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

/// Several copies of a matrix, as many as do not fit into a cache: a model's other layers lie
/// between two uses of one.
class Copies {
 public:
  Copies(std::int64_t bytes, std::int64_t all_bytes)
      : bytes_((bytes + 63) / 64 * 64), count_(all_bytes / bytes_ + 1) {
    data_.reset(static_cast<char*>(std::aligned_alloc(64, size(bytes_ * count_))));
  }
  char* first() { return data_.get(); }
  void fill() {
    for (std::int64_t i = 1; i < count_; ++i) {
      std::memcpy(first() + i * bytes_, first(), size(bytes_));
    }
  }
  char* next() { return first() + next_++ % count_ * bytes_; }
  std::int64_t bytes() const { return bytes_; }
  std::int64_t count() const { return count_; }

 private:
  static std::size_t size(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }
  std::int64_t bytes_, count_, next_ = 0;
  std::unique_ptr<char, Free> data_;
};

std::uint64_t sum_of(const char* data, std::int64_t bytes) {
  std::uint64_t sums[16] = {};
  for (std::int64_t i = 0; i + 128 <= bytes; i += 128) {
    std::uint64_t words[16];
    std::memcpy(words, data + i, 128);
    for (int k = 0; k < 16; ++k) sums[k] += words[k];
  }
  std::uint64_t all = 0;
  for (const auto s : sums) all += s;
  return all;
}

/// llama.cpp's library (ggml): a block of 32 numbers is an f16 scale and 16 bytes of codes; tokens
/// are quantised to blocks of 34 bytes (Q8_0) first. TESSERA_GGML names libggml-cpu.so.
struct Ggml {
  using Quantise = void (*)(const float*, void*, std::int64_t);
  using Dot = void (*)(int, float*, std::size_t, const void*, std::size_t, const void*, std::size_t,
                       int);
  using Gemv = void (*)(int, float*, std::size_t, const void*, const void*, int, int);
  using Init = void (*)();

  Ggml() {
    const std::vector<const char*> names = {std::getenv("TESSERA_GGML"), "libggml-cpu.so"};
    quantise_weights = reinterpret_cast<Quantise>(find_function(names, "quantize_row_q4_0_ref"));
    quantise_tokens = reinterpret_cast<Quantise>(find_function(names, "quantize_row_q8_0"));
    dot = reinterpret_cast<Dot>(find_function(names, "ggml_vec_dot_q4_0_q8_0"));
    gemv = reinterpret_cast<Gemv>(find_function(names, "ggml_gemv_q4_0_8x8_q8_0"));
    const auto init = reinterpret_cast<Init>(find_function(names, "ggml_cpu_init"));
    if (init != nullptr) init();
    found = quantise_weights != nullptr && quantise_tokens != nullptr && dot != nullptr &&
            init != nullptr;
  }

  bool found;
  Quantise quantise_weights, quantise_tokens;
  Dot dot;
  Gemv gemv;
};

constexpr std::int64_t kBlock = 18, kBlockColumns = 32;

/// Its layout for gemv: eight rows side by side, eight bytes of each in turn, codes made signed.
void interleave(const char* rows, std::int64_t blocks, char* to) {
  for (std::int64_t b = 0; b < blocks; ++b) {
    for (int r = 0; r < 8; ++r) std::memcpy(to + 2 * r, rows + (r * blocks + b) * kBlock, 2);
    to += 16;
    for (int i = 0; i < 16; ++i, to += 8) {
      std::uint64_t bits;
      std::memcpy(&bits, rows + (i % 8 * blocks + b) * kBlock + 2 + i / 8 * 8, 8);
      bits ^= 0x8888888888888888u;
      std::memcpy(to, &bits, 8);
    }
  }
}

double nmse(const std::vector<float>& got, const std::vector<double>& expected) {
  double error = 0, power = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::pow(double{got[i]} - expected[i], 2);
    power += expected[i] * expected[i];
  }
  return error / power;
}

struct Shape {
  const char* model;
  std::int64_t n, k;
};

class GemvBench {
 public:
  GemvBench(Shape shape, std::int64_t cold_bytes)
      : n(shape.n),
        k(shape.k),
        x(size(k)),
        weights(size(n * k)),
        out(size(n)),
        expected(size(n)),
        ours(packed_weights_bytes(n, k, kFormat), cold_bytes),
        rows(n * k / kBlockColumns * kBlock, cold_bytes),
        interleaved(n * k / kBlockColumns * kBlock, cold_bytes) {
    std::uint32_t state = 12345;
    const auto number = [&] {
      state = state * 1664525u + 1013904223u;
      return static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f;
    };
    for (float& v : x) v = number();
    for (float& v : weights) v = number();
    pack();
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t c = 0; c < k; ++c) {
        expected[size(row)] += double{weights[size(row * k + c)]} * double{x[size(c)]};
      }
    }
  }

  void run(const Ggml& ggml, int threads, int rounds, const std::string& title) {
    // A round takes every copy once, so that all contenders come with cold caches.
    const double calls = static_cast<double>(ours.count());
    const double bytes = calls * static_cast<double>(ours.bytes());
    const double operations = calls * 2 * static_cast<double>(n * k);
    std::vector<Contender> contenders;
    contenders.push_back(
        {"plain sum of the same bytes", [&] { each([&] { read(threads); }); }, bytes, 0});
    contenders.push_back({"tessera, f32 activations",
                          [&] { each([&] { multiply(dequant_gemm, threads); }); }, bytes,
                          operations});
    contenders.push_back({"tessera, int8 activations",
                          [&] { each([&] { multiply(dequant_gemm_a8, threads); }); }, bytes,
                          operations});
    if (ggml.found) {
      prepare(ggml);
      contenders.push_back({"llama.cpp Q4_0 x Q8_0 (dot)",
                            [&] { each([&] { dots(ggml, threads); }); }, bytes, operations});
      if (ggml.gemv != nullptr && n % 8 == 0) {
        contenders.push_back({"llama.cpp Q4_0 x Q8_0 (8x8)",
                              [&] { each([&] { gemv(ggml, threads); }); }, bytes, operations});
      }
    }
    compare(title, threads, rounds, contenders);
    if (!ggml.found) skip("llama.cpp", "set TESSERA_GGML to its libggml-cpu.so");
    multiply(dequant_gemm, 1);
    check(nmse(out, expected) < 2e-2, "dequant_gemm");  // 4 bits against what was quantised
    multiply(dequant_gemm_a8, 1);
    check(nmse(out, expected) < 2e-2, "dequant_gemm_a8");
    if (ggml.found) {
      dots(ggml, 1);
      check(nmse(out, expected) < 2e-2, "ggml_vec_dot_q4_0_q8_0");
    }
    if (contenders.size() > 4) {
      gemv(ggml, 1);
      check(nmse(out, expected) < 2e-2, "ggml_gemv_q4_0_8x8_q8_0");
    }
  }

 private:
  static constexpr QuantFormat kFormat{4, true, kBlockColumns, Real::f16};  // the bytes of Q4_0
  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

  template <class F>
  void each(const F& f) {
    for (std::int64_t i = 0; i < ours.count(); ++i) f();
  }

  /// Rows that a thread takes at a time: two slices a thread, of whole blocks.
  std::int64_t grain(int threads) const {
    return threads == 1 ? n : (n / (2 * threads) + kRowsPerBlock) / kRowsPerBlock * kRowsPerBlock;
  }

  void pack() {
    std::vector<std::uint8_t> codes(weights.size()), zero(weights.size() / kBlockColumns);
    std::vector<float> scale(zero.size());
    const Matrix m{weights.data(), Real::f32, n, k, k};
    choose_scales(m, {0, n}, kFormat, scale.data(), zero.data());
    quantise(m, {0, n}, kFormat, scale.data(), nullptr, Rounding::nearest, 0, codes.data());
    pack_weights(codes.data(), n, k, kFormat, scale.data(), nullptr, {0, n}, ours.first());
    ours.fill();
  }

  void prepare(const Ggml& ggml) {
    const std::int64_t row_bytes = k / kBlockColumns * kBlock;
    for (std::int64_t row = 0; row < n; ++row) {
      ggml.quantise_weights(weights.data() + row * k, rows.first() + row * row_bytes, k);
    }
    for (std::int64_t row = 0; row + 8 <= n; row += 8) {
      interleave(rows.first() + row * row_bytes, k / kBlockColumns,
                 interleaved.first() + row * row_bytes);
    }
    rows.fill();
    interleaved.fill();
    tokens.resize(size(k / kBlockColumns * 34));
  }

  void read(int threads) {
    const char* data = ours.next();
    const std::int64_t part = threads == 1 ? ours.bytes() : ours.bytes() / (2 * threads) + 64;
    for_slices(threads, ours.bytes(), part, [&](std::int64_t a, std::int64_t b) {
      sums[a / part % 16] += sum_of(data + a, b - a);
    });
  }

  template <class Product>
  void multiply(const Product& product, int threads) {
    const PackedWeights packed{n, k, kFormat, ours.next()};
    for_slices(threads, n, grain(threads), [&](std::int64_t a, std::int64_t b) {
      product({x.data(), Real::f32, 1, k, k}, packed, {a, b}, out.data(), n);
    });
  }

  void dots(const Ggml& ggml, int threads) {
    const char* data = rows.next();
    const std::int64_t row_bytes = k / kBlockColumns * kBlock;
    ggml.quantise_tokens(x.data(), tokens.data(), k);
    for_slices(threads, n, grain(threads), [&](std::int64_t a, std::int64_t b) {
      for (std::int64_t row = a; row < b; ++row) {
        ggml.dot(static_cast<int>(k), &out[size(row)], 0, data + row * row_bytes, 0, tokens.data(),
                 0, 1);
      }
    });
  }

  void gemv(const Ggml& ggml, int threads) {
    const char* data = interleaved.next();
    const std::int64_t row_bytes = k / kBlockColumns * kBlock;
    ggml.quantise_tokens(x.data(), tokens.data(), k);
    for_slices(threads, n, grain(threads), [&](std::int64_t a, std::int64_t b) {
      ggml.gemv(static_cast<int>(k), &out[size(a)], size(n), data + a * row_bytes, tokens.data(), 1,
                static_cast<int>(b - a));
    });
  }

  std::int64_t n, k;
  std::vector<float> x, weights, out;
  std::vector<double> expected;
  Copies ours, rows, interleaved;
  std::vector<char> tokens;
  std::uint64_t sums[16] = {};
};

}  // namespace

void bench_gemv(bool quick) {
  const Ggml ggml;
  const std::vector<Shape> shapes = {{"4096 x 4096, also Llama-2-7b", 4096, 4096},
                                     {"Llama-2-7b", 11008, 4096},
                                     {"Llama-2-7b", 4096, 11008},
                                     {"SmolLM2-135M", 576, 576},
                                     {"SmolLM2-135M", 192, 576},
                                     {"SmolLM2-135M", 1536, 576},
                                     {"SmolLM2-135M", 576, 1536}};
  // All copies together: more than a last-level cache, and what a model of 135M weights takes.
  const std::int64_t cold = quick ? std::int64_t{1} << 25 : std::int64_t{1} << 27;
  for (const Shape& shape : shapes) {
    GemvBench bench(shape, cold);
    for (const int threads : {1, 2}) {
      bench.run(ggml, threads, quick ? 3 : 7,
                "4-bit GEMV, n x k = " + std::to_string(shape.n) + " x " + std::to_string(shape.k) +
                    " (" + shape.model + ")");
    }
  }
}

}  // namespace tessera::kernels::bench
