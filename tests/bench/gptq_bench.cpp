// GPTQ of one square layer: time against one f32 product of the Hessian's size in the same run, and
// the peak of memory against the layer.
//   gptq_bench [SIZE [THREADS]]     4096, all
#include <sys/resource.h>

#include <Eigen/Core>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "calibration.h"
#include "dense/dense.h"
#include "tessera/kernels/parallel.h"

namespace {

using namespace tessera;
using test::RowMatrix;

double now_s() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// H of a few correlated inputs at a time, so that nothing but H itself is large.
quant::LinearStatistics inputs_of(std::int64_t size, Rng& rng) {
  quant::LinearStatistics out;
  out.hessian = Eigen::MatrixXf::Zero(size, size);
  const RowMatrix mix = test::random_matrix(3, size, rng);
  constexpr std::int64_t kTokens = 256;
  for (std::int64_t t = 0; t < size + size / 4; t += kTokens) {
    RowMatrix x = test::random_matrix(kTokens, size, rng);
    x += test::random_matrix(kTokens, 3, rng) * mix;
    for (std::int64_t j = 0; j < size; j += 17) x.col(j) *= 6;
    out.hessian->selfadjointView<Eigen::Lower>().rankUpdate(x.transpose());
    out.num_tokens += kTokens;
  }
  for (std::int64_t j = 0; j < size; ++j) {
    for (std::int64_t i = j + 1; i < size; ++i) (*out.hessian)(j, i) = (*out.hessian)(i, j);
  }
  *out.hessian /= static_cast<float>(out.num_tokens);
  out.mean = out.variance = out.abs_mean = out.abs_max = Eigen::VectorXf::Zero(size);
  return out;
}

double product_s(std::int64_t n, int threads) {
  RowMatrix a = RowMatrix::Constant(n, n, 0.5f), b = a, c = RowMatrix::Zero(n, n);
  const double start = now_s();
  kernels::for_slices(threads, n, 256, [&](std::int64_t i, std::int64_t last) {
    quant::dense::functions().multiply_add(
        1, {a.data() + i * n, last - i, n, n}, quant::dense::Op::as_is, {b.data(), n, n, n},
        quant::dense::Op::as_is, {c.data() + i * n, last - i, n, n});
  });
  return now_s() - start;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t size = argc > 1 ? std::atol(argv[1]) : 4096;
  const int threads = argc > 2 ? std::atoi(argv[2]) : kernels::hardware_threads();
  Rng rng(1);
  const auto inputs = inputs_of(size, rng);
  const RowMatrix weight = test::random_matrix(size, size, rng);
  for (const auto order : {quant::ActOrder::none, quant::ActOrder::weight}) {
    const double start = now_s();
    const auto q = quant::quantise(test::view(weight), {.bitwidth = 4, .act_order = order},
                                   quant::Method::gptq, &inputs, threads);
    std::printf(
        "gptq %lldx%lld, %d threads, act_order %s: %.2f s, error %.3f of round-to-nearest\n",
        static_cast<long long>(size), static_cast<long long>(size), threads,
        quant::to_string(order).data(), now_s() - start, *q.output_error / *q.rtn_output_error);
  }
  const double layer_mib = static_cast<double>(size * size) * 4 / (1 << 20);
  std::printf("peak memory of the process %.0f MiB = %.2f layers, weight and Hessian included\n",
              peak_mib(), peak_mib() / layer_mib);
  std::printf("f32 product of the Hessian's size: %.2f s\n", product_s(size, threads));
}
