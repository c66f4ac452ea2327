// GPTQ of one square layer, calibrated with 128 samples of 2048 tokens: the time of the Hessian's
// pass over the tokens and of GPTQ, against one f32 product of the Hessian's size (size x size x
// tokens) in the same run, and the peak of memory against the layer.
//   gptq_bench [--quick] [SIZE [THREADS]]     4096, all; --quick: 4 samples
//
// Seconds are of the clock and, in brackets, of the processors, which other programs do not stretch
// as much.
#include <dlfcn.h>
#include <sys/resource.h>

#include <Eigen/Core>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "calibration.h"
#include "dense/dense.h"
#include "tessera/kernels/parallel.h"
#include "tessera/quant/statistics.h"

namespace {

using namespace tessera;
using test::RowMatrix;

constexpr std::int64_t kTokens = 2048;  // of a sample

struct Seconds {
  double clock = 0, processors = 0;

  template <typename F>
  void add(const F& f) {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t cpu = std::clock();
    f();
    clock += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    processors += static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  }
};

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                       float, float*, int);

/// c += x^T x by OpenBLAS where it is installed, else by the product that GPTQ itself uses.
class Product {
 public:
  explicit Product(int threads) : threads_(threads) {
    void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    sgemm_ = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
    if (const auto set =
            reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads")))
      set(threads);
  }

  const char* name() const { return sgemm_ != nullptr ? "OpenBLAS" : "tessera's own product"; }

  void add(const RowMatrix& x, RowMatrix& c) const {
    const std::int64_t n = x.cols(), tokens = x.rows();
    if (sgemm_ != nullptr) {
      constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;  // cblas.h
      const int size = static_cast<int>(n);
      sgemm_(kRowMajor, kTranspose, kNoTranspose, size, size, static_cast<int>(tokens), 1, x.data(),
             size, x.data(), size, 1, c.data(), size);
      return;
    }
    kernels::for_slices(threads_, n, 256, [&](std::int64_t i, std::int64_t last) {
      quant::dense::functions().multiply_add(
          1, {x.data() + i, tokens, last - i, n}, quant::dense::Op::transposed,
          {x.data(), tokens, n, n}, quant::dense::Op::as_is, {c.data() + i * n, last - i, n, n});
    });
  }

 private:
  int threads_;
  Sgemm sgemm_ = nullptr;
};

// The calibration of a layer as a model gives it, sample by sample.
quant::LinearStatistics calibrate(std::int64_t size, std::int64_t num_samples, Rng& rng,
                                  Seconds& seconds) {
  quant::InputSums sums(size, true);
  for (std::int64_t sample = 0; sample < num_samples; ++sample) {
    const RowMatrix x = test::random_inputs(kTokens, size, rng);
    seconds.add([&] { sums.add(x.data(), kTokens); });
  }
  quant::LinearStatistics out;
  seconds.add([&] { out = std::move(sums).statistics(); });
  return out;
}

// The product of the Hessian's size, from some of its samples.
Seconds product_seconds(std::int64_t size, std::int64_t num_samples, const Product& product,
                        Rng& rng) {
  const std::int64_t measured = std::min<std::int64_t>(num_samples, 16);
  const RowMatrix x = test::random_inputs(kTokens, size, rng);
  RowMatrix c = RowMatrix::Zero(size, size);
  product.add(x, c);
  Seconds seconds;
  for (std::int64_t sample = 0; sample < measured; ++sample)
    seconds.add([&] { product.add(x, c); });
  const double scale = static_cast<double>(num_samples) / static_cast<double>(measured);
  return {seconds.clock * scale, seconds.processors * scale};
}

void print(const char* what, const Seconds& seconds, const Seconds& product) {
  std::printf("%-34s %8.2f s (%.2f s), %.2f (%.2f) of the product\n", what, seconds.clock,
              seconds.processors, seconds.clock / product.clock,
              seconds.processors / product.processors);
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  argc -= quick, argv += quick;
  const std::int64_t size = argc > 1 ? std::atol(argv[1]) : 4096;
  const int threads = argc > 2 ? std::atoi(argv[2]) : kernels::hardware_threads();
  const std::int64_t num_samples = quick ? 4 : 128;
  Rng rng(1);
  const double layer_mib = static_cast<double>(size * size) * 4 / (1 << 20);
  const RowMatrix weight = test::random_matrix(size, size, rng);
  Seconds hessian, gptq[2];
  const auto inputs = calibrate(size, num_samples, rng, hessian);
  const double calibrated_mib = peak_mib();
  constexpr quant::ActOrder kOrders[] = {quant::ActOrder::none, quant::ActOrder::weight};
  for (int i = 0; i < 2; ++i) {
    gptq[i].add([&] {
      const auto q = quant::quantise(test::view(weight), {.bitwidth = 4, .act_order = kOrders[i]},
                                     quant::Method::gptq, &inputs, threads);
      std::printf("act_order %s: output error %.3f of round-to-nearest\n",
                  name_of(kOrders[i]).data(), *q.output_error / *q.rtn_output_error);
    });
  }
  const double peak = peak_mib();
  const Product product(threads);
  const Seconds one = product_seconds(size, num_samples, product, rng);
  std::printf(
      "layer %lld x %lld, %lld samples of %lld tokens, %d threads; seconds of the clock (of "
      "the processors)\n",
      static_cast<long long>(size), static_cast<long long>(size),
      static_cast<long long>(num_samples), static_cast<long long>(kTokens), threads);
  std::printf("%-34s %8.2f s (%.2f s), %.0f GFLOP/s by %s\n", "f32 product of the Hessian's size",
              one.clock, one.processors,
              2e-9 * static_cast<double>(size * size * kTokens * num_samples) / one.clock,
              product.name());
  print("pass over the tokens", hessian, one);
  print("gptq", gptq[0], one);
  print("gptq, act_order weight", gptq[1], one);
  std::printf(
      "peak memory of the process: %.2f layers (%.0f MiB) after calibration, %.2f after gptq; "
      "weight, Hessian and a sample included\n",
      calibrated_mib / layer_mib, calibrated_mib, peak / layer_mib);
}
