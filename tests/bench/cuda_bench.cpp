// Speed of the CUDA kernels beside a device copy and cuBLAS's FP16 GEMM, measured in the same run,
// each result checked.
//   cuda_bench [largest number of tokens]      default: 2048. One Markdown table; nothing but a
//   line without a GPU.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "device_memory.h"
#include "tessera/kernels/cuda/gemm.h"
#include "tessera/kernels/cuda/int8.h"
#include "tessera/kernels/cuda/moments.h"

namespace {

using namespace tessera::kernels;
namespace test = tessera::kernels::test;

/// Device memory that goes with its owner.
class Memory {
 public:
  explicit Memory(std::int64_t num_bytes)
      : data_(test::device_allocate(std::max<std::int64_t>(num_bytes, 1))) {}
  ~Memory() { test::device_free(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_;
};

/// Median seconds of one call, over runs of about 20 ms each. `f` takes the number of the call, so
/// that it can go round more copies of its data than the L2 cache holds.
double seconds(const std::function<void(int)>& f) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  const auto timed = [&](int calls) {
    cudaEventRecord(begin);
    for (int i = 0; i < calls; ++i) f(i);
    cudaEventRecord(end);
    cudaEventSynchronize(end);
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    return static_cast<double>(ms) * 1e-3 / calls;
  };
  timed(3);
  const int calls = static_cast<int>(std::clamp(0.02 / timed(3), 3.0, 2000.0));
  std::vector<double> runs;
  for (int i = 0; i < 7; ++i) runs.push_back(timed(calls));
  std::sort(runs.begin(), runs.end());
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return runs[3];
}

double copy_bytes_per_s() {
  const std::int64_t size = std::int64_t{1} << 30;
  const Memory from(size), to(size);
  const double s = seconds([&](int) {
    cudaMemcpyAsync(to.as<char>(), from.as<char>(), static_cast<std::size_t>(size),
                    cudaMemcpyDeviceToDevice, nullptr);
  });
  return 2.0 * static_cast<double>(size) / s;
}

template <class T>
std::vector<T> random_values(std::int64_t count, std::uint64_t seed,
                             const std::function<T(std::uint64_t)>& make) {
  std::mt19937_64 random(seed);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = make(random());
  return values;
}

template <class T>
void upload(const Memory& memory, const std::vector<T>& values) {
  test::copy_to_device(memory.as<T>(), values.data(),
                       static_cast<std::int64_t>(values.size() * sizeof(T)));
}

/// NMSE of a few rows of the output against sums in double. A wrong kernel ends the benchmark.
void check(const std::vector<float>& got,
           const std::function<double(std::int64_t, std::int64_t)>& expected, std::int64_t tokens,
           std::int64_t rows, const char* what) {
  double error = 0, power = 0;
  for (std::int64_t i = 0; i < 64; ++i) {
    const std::int64_t token = i * 7919 % tokens, row = i * 104729 % rows;
    const double want = expected(token, row),
                 off = got[static_cast<std::size_t>(token * rows + row)] - want;
    error += off * off;
    power += want * want;
  }
  if (!(error <= 1e-6 * power)) {
    std::printf("%s: WRONG, NMSE %g\n", what, error / power);
    std::exit(1);
  }
}

struct Shape {
  const char* name;
  std::int64_t rows, columns;
};

struct Bench {
  cuda::Device device;
  double copy_rate;
  cublasHandle_t cublas;
  Shape shape;
  std::int64_t tokens;

  std::vector<std::uint16_t> activations;
  double cublas_s = 0;

  void run() {
    activations = random_values<std::uint16_t>(tokens * shape.columns, 1, [](std::uint64_t r) {
      return f32_to_f16(static_cast<float>(static_cast<int>(r % 2001) - 1000) * 1e-3f);
    });
    run_cublas();
    for (const int bitwidth : {3, 4, 8}) run_dequant(bitwidth);
    if (tokens >= 128) run_int8();
    std::fflush(stdout);
  }

  /// Copies of the weights to go round, so that none is found in L2 (50 MB on the largest GPUs).
  static int num_copies(std::int64_t bytes) {
    return static_cast<int>(std::clamp<std::int64_t>((std::int64_t{256} << 20) / bytes, 1, 64));
  }

  void run_cublas() {
    const std::int64_t bytes = shape.rows * shape.columns * 2;
    const int copies = num_copies(bytes);
    const Memory x(tokens * shape.columns * 2), w(bytes * copies), out(tokens * shape.rows * 2);
    upload(x, activations);
    cudaMemset(w.as<void>(), 0, static_cast<std::size_t>(bytes * copies));
    const float one = 1, zero = 0;
    cublas_s = seconds([&](int i) {
      cublasGemmEx(cublas, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(shape.rows),
                   static_cast<int>(tokens), static_cast<int>(shape.columns), &one,
                   w.as<char>() + bytes * (i % copies), CUDA_R_16F, static_cast<int>(shape.columns),
                   x.as<void>(), CUDA_R_16F, static_cast<int>(shape.columns), &zero, out.as<void>(),
                   CUDA_R_16F, static_cast<int>(shape.rows), CUBLAS_COMPUTE_32F,
                   CUBLAS_GEMM_DEFAULT);
    });
    print("cuBLAS FP16", cublas_s, static_cast<double>(bytes));
  }

  void run_dequant(int bitwidth) {
    const QuantFormat format{bitwidth, false, 128, Real::f16};
    const std::int64_t groups = num_groups(shape.columns, 128);
    const auto codes = random_values<std::uint8_t>(
        shape.rows * shape.columns, 2,
        [&](std::uint64_t r) { return static_cast<std::uint8_t>(r % (1u << bitwidth)); });
    const auto zero = random_values<std::uint8_t>(shape.rows * groups, 3, [&](std::uint64_t r) {
      return static_cast<std::uint8_t>(r % (1u << bitwidth));
    });
    const auto scale = random_values<float>(shape.rows * groups, 4, [](std::uint64_t r) {
      return static_cast<float>(r % 255 + 1) / 4096;
    });
    const cuda::GemmPlan plan =
        cuda::plan_dequant_gemm(device, Real::f16, tokens, shape.rows, shape.columns, format);
    const std::int64_t bytes =
        (cuda::packed_weights_bytes(shape.rows, shape.columns, format) + 255) / 256 * 256;
    const int copies = num_copies(bytes);
    const Memory d_codes(shape.rows * shape.columns), d_zero(shape.rows * groups),
        d_scale(shape.rows * groups * 4);
    const Memory x(tokens * shape.columns * 2), packed(bytes * copies),
        out(tokens * shape.rows * 4);
    const Memory workspace(plan.workspace_bytes);
    upload(d_codes, codes);
    upload(d_zero, zero);
    upload(d_scale, scale);
    upload(x, activations);
    for (int i = 0; i < copies; ++i)
      cuda::pack_weights(d_codes.as<std::uint8_t>(), shape.rows, shape.columns, format,
                         d_scale.as<float>(), d_zero.as<std::uint8_t>(),
                         packed.as<char>() + bytes * i, nullptr);
    const double s = seconds([&](int i) {
      cuda::dequant_gemm(
          plan, {x.as<void>(), Real::f16, tokens, shape.columns, shape.columns},
          {shape.rows, shape.columns, format, packed.as<char>() + bytes * (i % copies)},
          out.as<float>(), shape.rows, workspace.as<void>(), nullptr);
    });
    std::vector<float> got(static_cast<std::size_t>(tokens * shape.rows));
    test::copy_from_device(got.data(), out.as<void>(), tokens * shape.rows * 4);
    const auto expected = [&](std::int64_t token, std::int64_t row) {
      double sum = 0;
      for (std::int64_t k = 0; k < shape.columns; ++k) {
        const auto group = static_cast<std::size_t>(row * groups + k / 128);
        sum +=
            double{f16_to_f32(activations[static_cast<std::size_t>(token * shape.columns + k)])} *
            scale[group] * (codes[static_cast<std::size_t>(row * shape.columns + k)] - zero[group]);
      }
      return sum;
    };
    const char* name = bitwidth == 3 ? "W3A16" : bitwidth == 4 ? "W4A16" : "W8A16";
    check(got, expected, tokens, shape.rows, name);
    print(name, s, static_cast<double>(bytes));
  }

  void run_int8() {
    const auto make = [](std::uint64_t r) {
      return static_cast<std::int8_t>(static_cast<int>(r % 255) - 127);
    };
    const auto codes = random_values<std::int8_t>(tokens * shape.columns, 5, make);
    const auto weights = random_values<std::int8_t>(shape.rows * shape.columns, 6, make);
    const std::vector<float> ones(static_cast<std::size_t>(std::max(tokens, shape.rows)), 1.0f);
    const Memory x(tokens * shape.columns), w(shape.rows * shape.columns),
        out(tokens * shape.rows * 4);
    const Memory scales(static_cast<std::int64_t>(ones.size()) * 4);
    upload(x, codes);
    upload(w, weights);
    upload(scales, ones);
    const double s = seconds([&](int) {
      cuda::int8_gemm(device, x.as<std::int8_t>(), scales.as<float>(), tokens,
                      {shape.rows, shape.columns, w.as<std::int8_t>(), scales.as<float>()},
                      out.as<float>(), shape.rows, nullptr);
    });
    std::vector<float> got(static_cast<std::size_t>(tokens * shape.rows));
    test::copy_from_device(got.data(), out.as<void>(), tokens * shape.rows * 4);
    const auto expected = [&](std::int64_t token, std::int64_t row) {
      std::int64_t sum = 0;
      for (std::int64_t k = 0; k < shape.columns; ++k)
        sum += codes[static_cast<std::size_t>(token * shape.columns + k)] *
               weights[static_cast<std::size_t>(row * shape.columns + k)];
      return static_cast<double>(sum);
    };
    check(got, expected, tokens, shape.rows, "W8A8");
    print("W8A8", s, static_cast<double>(shape.rows * shape.columns));
  }

  void print(const char* kernel, double s, double weight_bytes) const {
    const double bytes =
        weight_bytes + static_cast<double>(tokens * shape.columns * 2 + tokens * shape.rows * 4);
    const double flop =
        2.0 * static_cast<double>(tokens * shape.rows) * static_cast<double>(shape.columns);
    std::printf("| %s | %lld | %s | %.1f | %.0f | %.0f %% | %.1f | %.2f |\n", shape.name,
                static_cast<long long>(tokens), kernel, s * 1e6, bytes / s * 1e-9,
                100 * bytes / s / copy_rate, flop / s * 1e-12, cublas_s / s);
  }
};

void bench_moments(double copy_rate) {
  const std::int64_t count = std::int64_t{1} << 29;
  const Memory x(count * 2), workspace(cuda::moments_workspace_bytes(count)), out(sizeof(Moments));
  cudaMemset(x.as<void>(), 0x3c, static_cast<std::size_t>(count * 2));
  const double s = seconds([&](int) {
    cuda::moments(x.as<void>(), Real::f16, count, workspace.as<void>(), out.as<Moments>(), nullptr);
  });
  Moments got;
  test::copy_from_device(&got, out.as<void>(), sizeof got);
  if (got.count != count || got.min != got.max || got.variance != 0) {
    std::printf("moments: WRONG\n");
    std::exit(1);
  }
  const double rate = static_cast<double>(count) * 2 / s;
  std::printf("\nmoments of 1 GiB of f16: %.0f GB/s, %.0f %% of the copy\n", rate * 1e-9,
              100 * rate / copy_rate);
}

}  // namespace

int main(int argc, char** argv) {
  const auto devices = test::devices();
  if (devices.empty()) {
    std::printf("skipped: no CUDA device\n");
    return 0;
  }
  const std::int64_t most = argc > 1 ? std::atoll(argv[1]) : 2048;
  const double copy_rate = copy_bytes_per_s();
  std::printf(
      "sm_%d, %d multiprocessors, device copy %.0f GB/s (read + write); groups of 128, f16 scales, "
      "zero points\n\n",
      devices[0].compute_capability, devices[0].num_multiprocessors, copy_rate * 1e-9);
  std::printf(
      "| shape | tokens | kernel | us | GB/s | of copy | TFLOP/s | x cuBLAS "
      "|\n|---|---|---|---|---|---|---|---|\n");
  cublasHandle_t cublas;
  if (cublasCreate(&cublas) != CUBLAS_STATUS_SUCCESS) {
    std::printf("cuBLAS does not start\n");
    return 1;
  }
  for (const Shape shape : {Shape{"4096 x 4096", 4096, 4096},
                            {"8192 x 8192", 8192, 8192},
                            {"llama-2-7b gate, up", 11008, 4096},
                            {"llama-2-7b down", 4096, 11008}})
    for (const std::int64_t tokens : {1, 2, 4, 8, 16, 32, 64, 128, 512, 2048})
      if (tokens <= most) Bench{devices[0], copy_rate, cublas, shape, tokens, {}}.run();
  cublasDestroy(cublas);
  bench_moments(copy_rate);
  return 0;
}
