// Speed of the CUDA kernels beside a device copy and cuBLAS's FP16 GEMM, measured in the same run,
// each result checked.
//   cuda_bench [largest number of tokens]      default: 2048. Markdown tables; the seed is
//   TESSERA_TEST_SEED or fresh, and printed.
// Exit status: 0 measured, 1 a wrong result or an error, 77 no CUDA device.
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

[[noreturn]] void fail(const char* what, const char* why) {
  std::printf("%s: %s\n", what, why);
  std::exit(1);
}

void expect_ok(Status status, const char* what) {
  if (status != Status::ok) fail(what, describe(status));
}

/// Device memory that goes with its owner.
class Memory {
 public:
  explicit Memory(std::int64_t num_bytes)
      : data_(test::device_allocate(std::max<std::int64_t>(num_bytes, 1))) {}
  /// Poisoned, for outputs: every byte 0xff, which is NaN.
  void poison(std::int64_t num_bytes) const {
    cudaMemset(data_, 0xff, static_cast<std::size_t>(num_bytes));
  }
  /// `copies` of the first `num_bytes` behind each other.
  void repeat(std::int64_t num_bytes, int copies) const {
    for (int i = 1; i < copies; ++i)
      cudaMemcpyAsync(as<char>() + num_bytes * i, data_, static_cast<std::size_t>(num_bytes),
                      cudaMemcpyDeviceToDevice, nullptr);
  }
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

std::uint64_t seed() {
  static const char* chosen = std::getenv("TESSERA_TEST_SEED");
  static const std::uint64_t value =
      chosen == nullptr ? std::random_device{}() : std::strtoull(chosen, nullptr, 10);
  return value;
}

template <class T>
std::vector<T> random_values(std::int64_t count, std::uint64_t stream,
                             const std::function<T(std::uint64_t)>& make) {
  std::mt19937_64 random(seed() + stream);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = make(random());
  return values;
}

template <class T>
void upload(const Memory& memory, const std::vector<T>& values) {
  test::copy_to_device(memory.as<T>(), values.data(),
                       static_cast<std::int64_t>(values.size() * sizeof(T)));
}

constexpr std::int64_t kSentinels = 64;  // floats on either side of an output

/// Runs `call` once more on a poisoned output: nothing beside it may change, everything in it must,
/// and the NMSE of 64 elements against `expected` is at most `allowed`. A wrong kernel ends the
/// benchmark.
void check(const Memory& padded, std::int64_t tokens, std::int64_t rows, double allowed,
           const std::function<void()>& call,
           const std::function<double(std::int64_t, std::int64_t)>& expected, const char* what) {
  const std::int64_t count = tokens * rows + 2 * kSentinels;
  padded.poison(count * 4);
  call();
  std::vector<float> got(static_cast<std::size_t>(count));
  test::copy_from_device(got.data(), padded.as<void>(), count * 4);
  for (std::int64_t i = 0; i < count; ++i) {
    const bool inside = i >= kSentinels && i < count - kSentinels;
    if (std::isnan(got[static_cast<std::size_t>(i)]) == inside)
      fail(what, inside ? "WRONG, an output was not written" : "WRONG, wrote beside its output");
  }
  double error = 0, power = 0;
  for (std::int64_t i = 0; i < 64; ++i) {
    const std::int64_t token = i * 7919 % tokens, row = i * 104729 % rows;
    const double want = expected(token, row),
                 off = got[static_cast<std::size_t>(kSentinels + token * rows + row)] - want;
    error += off * off;
    power += want * want;
  }
  if (!(error <= allowed * power)) {
    std::printf("%s: WRONG, NMSE %g\n", what, error / power);
    std::exit(1);
  }
}

/// Between -1 and 1.
std::uint16_t random_f16(std::uint64_t bits) {
  return f32_to_f16(static_cast<float>(static_cast<int>(bits % 2001) - 1000) * 1e-3f);
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
  double cublas_s = 0, w4_of_copy = 0, w4_of_cublas = 0;

  void run() {
    activations = random_values<std::uint16_t>(tokens * shape.columns, 1, random_f16);
    run_cublas();
    for (const int bitwidth : {3, 4, 8}) run_dequant(bitwidth);
    if (tokens >= 128) run_int8();
    std::fflush(stdout);
  }

  /// Copies of the weights to go round, so that none is found in L2 (50 MB on the largest GPUs).
  static int num_copies(std::int64_t bytes) {
    return static_cast<int>(std::clamp<std::int64_t>((std::int64_t{256} << 20) / bytes, 1, 64));
  }

  /// out = x * w^T in the types given; seconds of a call.
  double time_cublas(const Memory& x, const Memory& w, std::int64_t bytes, int copies,
                     cudaDataType_t in, cudaDataType_t out_type, cublasComputeType_t compute,
                     const void* one, const void* zero, const char* what) {
    const Memory out(tokens * shape.rows * 4);
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    const double s = seconds([&](int i) {
      const cublasStatus_t answer = cublasGemmEx(
          cublas, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(shape.rows), static_cast<int>(tokens),
          static_cast<int>(shape.columns), one, w.as<char>() + bytes * (i % copies), in,
          static_cast<int>(shape.columns), x.as<void>(), in, static_cast<int>(shape.columns), zero,
          out.as<void>(), out_type, static_cast<int>(shape.rows), compute, CUBLAS_GEMM_DEFAULT);
      if (answer != CUBLAS_STATUS_SUCCESS) status = answer;
    });
    if (status != CUBLAS_STATUS_SUCCESS) fail(what, cublasGetStatusString(status));
    return s;
  }

  void run_cublas() {
    const std::int64_t bytes = shape.rows * shape.columns * 2;
    const int copies = num_copies(bytes);
    const Memory x(tokens * shape.columns * 2), w(bytes * copies);
    upload(x, activations);
    upload(w, random_values<std::uint16_t>(shape.rows * shape.columns, 7, random_f16));
    w.repeat(bytes, copies);
    const float one = 1, zero = 0;
    cublas_s = time_cublas(x, w, bytes, copies, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F, &one,
                           &zero, "cuBLAS FP16");
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
        out((tokens * shape.rows + 2 * kSentinels) * 4);
    const Memory workspace(plan.workspace_bytes);
    upload(d_codes, codes);
    upload(d_zero, zero);
    upload(d_scale, scale);
    upload(x, activations);
    const char* name = bitwidth == 3 ? "W3A16" : bitwidth == 4 ? "W4A16" : "W8A16";
    expect_ok(cuda::pack_weights(d_codes.as<std::uint8_t>(), shape.rows, shape.columns, format,
                                 d_scale.as<float>(), d_zero.as<std::uint8_t>(), packed.as<char>(),
                                 nullptr),
              name);
    packed.repeat(bytes, copies);
    const auto call = [&](int i) {
      expect_ok(cuda::dequant_gemm(
                    plan, {x.as<void>(), Real::f16, tokens, shape.columns, shape.columns},
                    {shape.rows, shape.columns, format, packed.as<char>() + bytes * (i % copies)},
                    out.as<float>() + kSentinels, shape.rows, workspace.as<void>(), nullptr),
                name);
    };
    const double s = seconds(call);
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
    check(
        out, tokens, shape.rows, 1e-6, [&] { call(copies - 1); }, expected, name);
    print(name, s, static_cast<double>(bytes));
    if (bitwidth == 4) {
      w4_of_copy = bytes_of_call(static_cast<double>(bytes)) / s / copy_rate;
      w4_of_cublas = cublas_s / s;
    }
  }

  void run_int8() {
    const auto make = [](std::uint64_t r) {
      return static_cast<std::int8_t>(static_cast<int>(r % 255) - 127);
    };
    const auto codes = random_values<std::int8_t>(tokens * shape.columns, 5, make);
    const auto weights = random_values<std::int8_t>(shape.rows * shape.columns, 6, make);
    const std::vector<float> ones(static_cast<std::size_t>(std::max(tokens, shape.rows)), 1.0f);
    const std::int64_t bytes = shape.rows * shape.columns;
    const int copies = num_copies(bytes);
    const Memory x(tokens * shape.columns), w(bytes * copies),
        out((tokens * shape.rows + 2 * kSentinels) * 4);
    const Memory scales(static_cast<std::int64_t>(ones.size()) * 4);
    upload(x, codes);
    upload(w, weights);
    w.repeat(bytes, copies);
    upload(scales, ones);
    const std::int32_t one = 1, zero = 0;
    const double theirs = time_cublas(x, w, bytes, copies, CUDA_R_8I, CUDA_R_32I,
                                      CUBLAS_COMPUTE_32I, &one, &zero, "cuBLAS INT8");
    print("cuBLAS INT8", theirs, static_cast<double>(bytes));
    const auto call = [&](int i) {
      expect_ok(cuda::int8_gemm(device, x.as<std::int8_t>(), scales.as<float>(), tokens,
                                {shape.rows, shape.columns,
                                 w.as<std::int8_t>() + bytes * (i % copies), scales.as<float>()},
                                out.as<float>() + kSentinels, shape.rows, nullptr),
                "W8A8");
    };
    const double s = seconds(call);
    const auto expected = [&](std::int64_t token, std::int64_t row) {
      std::int64_t sum = 0;
      for (std::int64_t k = 0; k < shape.columns; ++k)
        sum += codes[static_cast<std::size_t>(token * shape.columns + k)] *
               weights[static_cast<std::size_t>(row * shape.columns + k)];
      return static_cast<double>(sum);
    };
    check(
        out, tokens, shape.rows, 1e-12, [&] { call(0); }, expected, "W8A8");
    print("W8A8", s, static_cast<double>(bytes));
  }

  /// What a call must move: weights once, activations and outputs once.
  double bytes_of_call(double weight_bytes) const {
    return weight_bytes + static_cast<double>(tokens * shape.columns * 2 + tokens * shape.rows * 4);
  }

  void print(const char* kernel, double s, double weight_bytes) const {
    const double bytes = bytes_of_call(weight_bytes);
    const double flop =
        2.0 * static_cast<double>(tokens * shape.rows) * static_cast<double>(shape.columns);
    std::printf("| %s | %lld | %s | %.1f | %.0f | %.0f %% | %.1f | %.2f |\n", shape.name,
                static_cast<long long>(tokens), kernel, s * 1e6, bytes / s * 1e-9,
                100 * bytes / s / copy_rate, flop / s * 1e-12, cublas_s / s);
  }
};

/// 1 GiB of f16: 16 copies of 64 MiB of random numbers, whose moments the CPU knows.
void bench_moments(double copy_rate) {
  constexpr std::int64_t kPart = std::int64_t{1} << 25;
  constexpr int kParts = 16;
  const std::int64_t count = kPart * kParts;
  const auto values = random_values<std::uint16_t>(kPart, 8, random_f16);
  const Memory x(count * 2), workspace(cuda::moments_workspace_bytes(count)), out(sizeof(Moments));
  upload(x, values);
  x.repeat(kPart * 2, kParts);
  const auto call = [&](int) {
    expect_ok(cuda::moments(x.as<void>(), Real::f16, count, workspace.as<void>(), out.as<Moments>(),
                            nullptr),
              "moments");
  };
  const double s = seconds(call);
  out.poison(sizeof(Moments));
  call(0);
  Moments got, want;
  test::copy_from_device(&got, out.as<void>(), sizeof got);
  expect_ok(moments(values.data(), Real::f16, kPart, &want), "moments on the CPU");
  const bool same = got.count == count && got.num_not_finite == 0 && got.min == want.min &&
                    got.max == want.max && std::abs(got.mean - want.mean) <= 1e-9 &&
                    std::abs(got.variance - want.variance) <= 1e-9;
  if (!same) fail("moments", "WRONG");
  const double rate = static_cast<double>(count) * 2 / s;
  std::printf("\nmoments of 1 GiB of f16: %.0f GB/s, %.0f %% of the copy\n", rate * 1e-9,
              100 * rate / copy_rate);
}

}  // namespace

int main(int argc, char** argv) {
  const auto devices = test::devices();
  if (devices.empty()) {
    std::printf("no CUDA device: nothing measured\n");
    return 77;
  }
  const std::int64_t most = argc > 1 ? std::atoll(argv[1]) : 2048;
  const double copy_rate = copy_bytes_per_s();
  std::printf(
      "sm_%d, %d multiprocessors, device copy %.0f GB/s (read + write); groups of 128, f16 scales, "
      "zero points; TESSERA_TEST_SEED=%llu\n\n",
      devices[0].compute_capability, devices[0].num_multiprocessors, copy_rate * 1e-9,
      static_cast<unsigned long long>(seed()));
  std::printf(
      "| shape | tokens | kernel | us | GB/s | of copy | TFLOP/s | x cuBLAS FP16 "
      "|\n|---|---|---|---|---|---|---|---|\n");
  cublasHandle_t cublas;
  if (cublasCreate(&cublas) != CUBLAS_STATUS_SUCCESS) fail("cuBLAS", "does not start");
  double of_copy = 0, of_cublas = 1e9;  // of W4A16, 8192 x 8192
  for (const Shape shape : {Shape{"4096 x 4096", 4096, 4096},
                            {"8192 x 8192", 8192, 8192},
                            {"llama-2-7b gate, up", 11008, 4096},
                            {"llama-2-7b down", 4096, 11008}})
    for (const std::int64_t tokens : {1, 2, 4, 8, 16, 32, 64, 128, 512, 2048}) {
      if (tokens > most) continue;
      Bench bench{devices[0], copy_rate, cublas, shape, tokens, {}};
      bench.run();
      if (shape.rows != 8192) continue;
      if (tokens == 1) of_copy = bench.w4_of_copy;
      if (tokens <= 16) of_cublas = std::min(of_cublas, bench.w4_of_cublas);
    }
  cublasDestroy(cublas);
  bench_moments(copy_rate);
  std::printf(
      "W4A16, 8192 x 8192: one token %.0f %% of the copy (target 80 %%); up to 16 tokens at least "
      "%.2f x cuBLAS FP16 (target 3)\n",
      100 * of_copy, of_cublas);
  return 0;
}
