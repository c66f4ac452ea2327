// W8A8 against the f32 and bf16 products of the platform's libraries, where they are installed.
#include "tessera/kernels/int8.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
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
using DnnlSgemm = int (*)(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*,
                          std::int64_t, const float*, std::int64_t, float, float*, std::int64_t);

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

void bench_shape(std::int64_t m, std::int64_t n, std::int64_t k, int threads, int rounds) {
  const auto size = [](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); };
  std::vector<float> x(size(m, k)), w(size(n, k)), out(size(m, n)), reference(size(m, n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = number(static_cast<std::uint32_t>(i));
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = number(static_cast<std::uint32_t>(i) + 99u);
  std::vector<std::int8_t> x_codes(x.size()), w_codes(w.size());
  std::vector<float> x_scale(size(m, 1)), w_scale(size(n, 1));
  const Matrix activations{x.data(), Real::f32, m, k, k};
  quantise_rows({w.data(), Real::f32, n, k, k}, {0, n}, nullptr, w_codes.data(), w_scale.data());
  const auto bytes = static_cast<std::size_t>(int8_weights_bytes(n, k));
  const std::unique_ptr<void, Free> packed(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
  pack_int8_weights(w_codes.data(), n, k, {0, n}, static_cast<std::int8_t*>(packed.get()));
  const Int8Weights weights{n, k, static_cast<std::int8_t*>(packed.get()), w_scale.data()};

  const double operations = 2.0 * static_cast<double>(m) * static_cast<double>(n * k);
  std::vector<Contender> contenders;
  const auto sgemm = reinterpret_cast<Sgemm>(find_function(kBlas, "cblas_sgemm"));
  const auto set_threads =
      reinterpret_cast<SetThreads>(find_function(kBlas, "openblas_set_num_threads"));
  const auto narrow = [](std::int64_t value) { return static_cast<int>(value); };
  if (sgemm != nullptr && set_threads != nullptr) {
    set_threads(threads);
    contenders.push_back({"OpenBLAS sgemm",
                          [&] {
                            sgemm(kRowMajor, kNoTranspose, kTranspose, narrow(m), narrow(n),
                                  narrow(k), 1, x.data(), narrow(k), w.data(), narrow(k), 0,
                                  reference.data(), narrow(n));
                          },
                          0, operations});
  }
  // Its number of threads is OMP_NUM_THREADS, read once: compared on one thread only if that is 1.
  const char* omp = std::getenv("OMP_NUM_THREADS");
  const auto dnnl = reinterpret_cast<DnnlSgemm>(find_function(kDnnl, "dnnl_sgemm"));
  const bool dnnl_fits = omp != nullptr && std::atoi(omp) == threads;
  if (dnnl != nullptr && dnnl_fits) {
    contenders.push_back(
        {"oneDNN sgemm",
         [&] { dnnl('N', 'T', m, n, k, 1, x.data(), k, w.data(), k, 0, reference.data(), n); }, 0,
         operations});
  }
  contenders.push_back(
      {"tessera W8A8, rows quantised too",
       [&] {
         for_slices(threads, m, 16, [&](std::int64_t a, std::int64_t b) {
           quantise_rows(activations, {a, b}, nullptr, x_codes.data(), x_scale.data());
         });
         for_slices(threads, n, threads == 1 ? n : 1024, [&](std::int64_t a, std::int64_t b) {
           int8_gemm(x_codes.data(), x_scale.data(), m, weights, {a, b}, out.data(), n);
         });
       },
       0, operations});
  compare("W8A8 " + std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k),
          threads, rounds, contenders);
  if (contenders.size() > 1) check(nmse(out, reference) < 2e-4, "W8A8 against sgemm");
  if (sgemm == nullptr) skip("OpenBLAS sgemm", "no libopenblas.so.0 (libopenblas-dev)");
  if (dnnl == nullptr) skip("oneDNN sgemm", "no libdnnl.so (libdnnl-dev)");
  if (dnnl != nullptr && !dnnl_fits) {
    skip("oneDNN sgemm", "run with OMP_NUM_THREADS=" + std::to_string(threads));
  }
}

}  // namespace

void bench_int8(bool quick) {
  for (const int threads : {1, 2}) {
    bench_shape(1024, quick ? 1024 : 4096, quick ? 1024 : 4096, threads, quick ? 3 : 7);
  }
}

}  // namespace tessera::kernels::bench
