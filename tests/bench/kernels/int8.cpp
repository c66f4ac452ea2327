// W8A8 against the f32 and bf16 products of the platform's libraries, where they are installed.
#include "tessera/kernels/int8.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compare.h"
#include "tessera/kernels/parallel.h"

namespace tessera::kernels::bench {
namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

float number(std::uint32_t i) {
  i = (i ^ i >> 15) * 2246822519u;
  i = (i ^ i >> 13) * 3266489917u;
  return static_cast<float>(static_cast<std::int32_t>(i ^ i >> 16)) * 0x1p-31f;
}

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                       float, float*, int);
using SetThreads = void (*)(int);
using Dim = std::int64_t;
using DnnlSgemm = int (*)(char, char, Dim, Dim, Dim, float, const float*, Dim, const float*, Dim,
                          float, float*, Dim);
using DnnlBf16 = int (*)(char, char, Dim, Dim, Dim, float, const std::uint16_t*, Dim,
                         const std::uint16_t*, Dim, float, float*, Dim);
using DnnlInt8 = int (*)(char, char, char, Dim, Dim, Dim, float, const std::int8_t*, Dim,
                         std::int8_t, const std::int8_t*, Dim, std::int8_t, float, std::int32_t*,
                         Dim, const std::int32_t*);

constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;  // cblas.h
const std::vector<const char*> kBlas = {"libopenblas.so.0", "libopenblas.so"};
const std::vector<const char*> kDnnl = {"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"};

/// Square of the error over the square of what a product in f32 gives.
double nmse(const std::vector<float>& got, const std::vector<float>& expected) {
  double error = 0, power = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::pow(double{got[i]} - double{expected[i]}, 2);
    power += std::pow(double{expected[i]}, 2);
  }
  return error / power;
}

std::size_t size(std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); }

std::vector<std::uint16_t> bf16_of(const std::vector<float>& values) {
  std::vector<std::uint16_t> bits(values.size());
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = f32_to_bf16(values[i]);
  return bits;
}

/// x [m, k] times w [n, k] transposed, in every way that is to be had.
class Int8Bench {
 public:
  Int8Bench(std::int64_t tokens, std::int64_t rows, std::int64_t columns)
      : m(tokens), n(rows), k(columns), x(size(m, k)), w(size(n, k)), out(size(m, n)) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = number(static_cast<std::uint32_t>(i));
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = number(static_cast<std::uint32_t>(i) + 99u);
    x_bf16 = bf16_of(x);
    w_bf16 = bf16_of(w);
    x_codes.resize(x.size());
    w_codes.resize(w.size());
    x_scale.resize(size(m, 1));
    w_scale.resize(size(n, 1));
    quantise_rows({x.data(), Real::f32, m, k, k}, {0, m}, nullptr, x_codes.data(), x_scale.data());
    quantise_rows({w.data(), Real::f32, n, k, k}, {0, n}, nullptr, w_codes.data(), w_scale.data());
    const auto bytes = static_cast<std::size_t>(int8_weights_bytes(n, k));
    packed.reset(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    pack_int8_weights(w_codes.data(), n, k, {0, n}, static_cast<std::int8_t*>(packed.get()));
  }

  void run(int threads, int rounds) {
    contenders.clear();
    skipped.clear();
    add_blas(threads);
    const std::vector<float> reference = std::move(out);
    out.assign(size(m, n), 0);
    add_dnnl(threads);
    add("tessera W8A8, rows quantised too", [this, threads] { product(threads); });
    compare("W8A8 " + std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k),
            threads, rounds, contenders);
    if (!reference.empty()) check(nmse(out, reference) < 2e-4, "W8A8 against sgemm");
    for (const auto& [name, why] : skipped) skip(name, why);
  }

 private:
  void add(const std::string& name, const std::function<void()>& call) {
    const double operations = 2.0 * static_cast<double>(m) * static_cast<double>(n * k);
    contenders.push_back({name, call, 0, operations});
  }

  /// Leaves the product in `out`, or nothing without the library.
  void add_blas(int threads) {
    const auto sgemm = reinterpret_cast<Sgemm>(find_function(kBlas, "cblas_sgemm"));
    const auto set_threads =
        reinterpret_cast<SetThreads>(find_function(kBlas, "openblas_set_num_threads"));
    if (sgemm == nullptr || set_threads == nullptr) {
      skipped.emplace_back("OpenBLAS sgemm", "no libopenblas.so.0 (libopenblas-dev)");
      out.clear();
      return;
    }
    set_threads(threads);
    const auto narrow = [](std::int64_t value) { return static_cast<int>(value); };
    const auto call = [this, sgemm, narrow] {
      sgemm(kRowMajor, kNoTranspose, kTranspose, narrow(m), narrow(n), narrow(k), 1, x.data(),
            narrow(k), w.data(), narrow(k), 0, out.data(), narrow(n));
    };
    call();
    add("OpenBLAS sgemm", call);
  }

  void add_dnnl(int threads) {
    const auto f32 = reinterpret_cast<DnnlSgemm>(find_function(kDnnl, "dnnl_sgemm"));
    if (f32 == nullptr) {
      skipped.emplace_back("oneDNN", "no libdnnl.so (libdnnl-dev)");
      return;
    }
    // It takes as many threads as OpenMP would.
    const auto set_threads =
        reinterpret_cast<SetThreads>(find_function({"libgomp.so.1"}, "omp_set_num_threads"));
    if (set_threads == nullptr) {
      skipped.emplace_back("oneDNN", "no libgomp.so.1 to set its threads with");
      return;
    }
    set_threads(threads);
    add_dnnl_product("oneDNN f32", "dnnl_sgemm", [this, f32] {
      return f32('N', 'T', m, n, k, 1, x.data(), k, w.data(), k, 0, out.data(), n);
    });
    const auto bf16 = reinterpret_cast<DnnlBf16>(find_function(kDnnl, "dnnl_gemm_bf16bf16f32"));
    add_dnnl_product("oneDNN bf16", "dnnl_gemm_bf16bf16f32", [this, bf16] {
      if (bf16 == nullptr) return kMissing;
      return bf16('N', 'T', m, n, k, 1, x_bf16.data(), k, w_bf16.data(), k, 0, out.data(), n);
    });
    const auto int8 = reinterpret_cast<DnnlInt8>(find_function(kDnnl, "dnnl_gemm_s8s8s32"));
    const auto product = [this, int8] {
      if (int8 == nullptr) return kMissing;
      sums.resize(size(m, n));
      const std::int32_t offset = 0;
      return int8('N', 'T', 'F', m, n, k, 1, x_codes.data(), k, 0, w_codes.data(), k, 0, 0,
                  sums.data(), n, &offset);
    };
    const bool exact = product() != 0 || sums_are_exact();
    add_dnnl_product(exact ? "oneDNN int8, sums only" : "oneDNN int8, sums only, saturated",
                     "dnnl_gemm_s8s8s32", product);
  }

  /// Of the first token. Without VNNI the library adds pairs of products in 16 bits.
  bool sums_are_exact() const {
    for (std::int64_t row = 0; row < n; ++row) {
      std::int32_t sum = 0;
      for (std::int64_t i = 0; i < k; ++i)
        sum += x_codes[size(1, i)] * w_codes[size(1, row * k + i)];
      if (sum != sums[size(1, row)]) return false;
    }
    return true;
  }

  /// Tries it once: a library refuses what it has no code for on this CPU.
  void add_dnnl_product(const std::string& name, const char* function,
                        const std::function<int()>& call) {
    const int status = call();
    if (status == 0) {
      add(name, [call] { call(); });
    } else if (status == kMissing) {
      skipped.emplace_back(name, std::string("the library has no ") + function);
    } else {
      skipped.emplace_back(
          name, std::string(function) + " refuses on this CPU, status " + std::to_string(status));
    }
  }

  void product(int threads) {
    for_slices(threads, m, 16, [&](std::int64_t a, std::int64_t b) {
      quantise_rows({x.data(), Real::f32, m, k, k}, {a, b}, nullptr, x_codes.data(),
                    x_scale.data());
    });
    const Int8Weights weights{n, k, static_cast<std::int8_t*>(packed.get()), w_scale.data()};
    for_slices(threads, n, threads == 1 ? n : 1024, [&](std::int64_t a, std::int64_t b) {
      int8_gemm(x_codes.data(), x_scale.data(), m, weights, {a, b}, out.data(), n);
    });
  }

  static constexpr int kMissing = -1;
  std::int64_t m, n, k;
  std::vector<float> x, w, out;
  std::vector<std::uint16_t> x_bf16, w_bf16;
  std::vector<std::int8_t> x_codes, w_codes;
  std::vector<float> x_scale, w_scale;
  std::vector<std::int32_t> sums;
  std::unique_ptr<void, Free> packed;
  std::vector<Contender> contenders;
  std::vector<std::pair<std::string, std::string>> skipped;
};

}  // namespace

void bench_int8(bool quick) {
  Int8Bench bench(1024, quick ? 1024 : 4096, quick ? 1024 : 4096);
  for (const int threads : {1, 2}) bench.run(threads, quick ? 3 : 7);
}

}  // namespace tessera::kernels::bench
