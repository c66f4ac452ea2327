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
#include <memory>
#include <random>
#include <string>
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
  void poison(std::int64_t num_bytes) const {  // outputs: every byte 0xff, which is NaN
    cudaMemset(data_, 0xff, static_cast<std::size_t>(num_bytes));
  }
  /// `copies` of the first `num_bytes` behind each other.
  void repeat(std::int64_t num_bytes, int copies) const {
    for (int i = 1; i < copies; ++i)
      cudaMemcpyAsync(as<char>() + num_bytes * i, data_, static_cast<std::size_t>(num_bytes),
                      cudaMemcpyDeviceToDevice, nullptr);
    cudaDeviceSynchronize();  // who reads them has a stream of their own
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

using Call = std::function<void(int, cudaStream_t)>;

/// A graph of `calls` calls, which replays without the host: a decoder's kernels follow each other
/// as fast as they do here.
cudaGraphExec_t graph_of(const Call& f, int calls, cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  for (int i = 0; i < calls; ++i) f(i, stream);
  if (cudaStreamEndCapture(stream, &graph) != cudaSuccess ||
      cudaGraphInstantiate(&ready, graph, 0) != cudaSuccess)
    fail("CUDA graph", cudaGetErrorString(cudaGetLastError()));
  cudaGraphDestroy(graph);
  return ready;
}

/// Median seconds of one call, over 7 replays of about 10 ms each. `f` takes the number of the
/// call, so that it can go round `copies` of its data, more than the L2 cache holds.
double seconds(const Call& f, int copies) {
  cudaStream_t stream;
  cudaEvent_t begin, end;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  cudaGraphExec_t graph = nullptr;
  const auto timed = [&](int calls) {
    cudaEventRecord(begin, stream);
    cudaGraphLaunch(graph, stream);
    cudaEventRecord(end, stream);
    if (cudaEventSynchronize(end) != cudaSuccess)
      fail("measuring", cudaGetErrorString(cudaGetLastError()));
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    return static_cast<double>(ms) * 1e-3 / calls;
  };
  const auto median_of = [&](int calls, int runs) {
    graph = graph_of(f, calls, stream);
    timed(calls);
    std::vector<double> s;
    for (int i = 0; i < runs; ++i) s.push_back(timed(calls));
    cudaGraphExecDestroy(graph);
    std::sort(s.begin(), s.end());
    return s[s.size() / 2];
  };
  const int least = std::max(copies, 3);
  const double about = median_of(least, 3);
  const double s =
      median_of(static_cast<int>(std::clamp(0.01 / about / least, 1.0, 20.0)) * least, 7);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaStreamDestroy(stream);
  return s;
}

double copy_bytes_per_s() {
  const std::int64_t size = std::int64_t{1} << 30;
  const Memory from(size), to(size);
  const double s = seconds(
      [&](int, cudaStream_t stream) {
        cudaMemcpyAsync(to.as<char>(), from.as<char>(), static_cast<std::size_t>(size),
                        cudaMemcpyDeviceToDevice, stream);
      },
      1);
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
  if (!(error <= allowed * power))
    fail(what,
         ("WRONG, " + std::to_string(error / power / allowed) + " of the NMSE allowed").c_str());
}

std::uint16_t random_f16(std::uint64_t bits) {  // between -1 and 1
  return f32_to_f16(static_cast<float>(static_cast<int>(bits % 2001) - 1000) * 1e-3f);
}

struct Shape {
  const char* name;
  std::int64_t rows, columns;
};

/// Copies of the weights to go round, so that none is found in L2 (50 MB on the largest GPUs).
int num_copies(std::int64_t bytes) {
  return static_cast<int>(std::clamp<std::int64_t>((std::int64_t{256} << 20) / bytes, 1, 64));
}

/// Weights of a shape, once for all numbers of tokens: `copies` of `size` bytes, `stride` apart.
struct Weights {
  Weights(std::int64_t num_bytes, std::int64_t step)
      : size(num_bytes), stride(step), copies(num_copies(step)), memory(step * copies) {}
  void repeat() const { memory.repeat(stride, copies); }  // once the first is filled
  char* copy(int i) const { return memory.as<char>() + stride * (i % copies); }

  std::int64_t size, stride;
  int copies;
  Memory memory;
};

/// Codes, zero points and scales of one bitwidth, on the host for the check and packed.
struct QuantWeights {
  QuantFormat format;
  std::int64_t groups;
  std::vector<std::uint8_t> codes, zero;
  std::vector<float> scale;
  Weights packed;

  QuantWeights(const Shape& shape, int bitwidth)
      : format{bitwidth, false, 128, Real::f16},
        groups(num_groups(shape.columns, 128)),
        codes(random_codes(shape.rows * shape.columns, 2, bitwidth)),
        zero(random_codes(shape.rows * groups, 3, bitwidth)),
        scale(random_values<float>(
            shape.rows * groups, 4,
            [](std::uint64_t r) { return static_cast<float>(r % 255 + 1) / 4096; })),
        packed(cuda::packed_weights_bytes(shape.rows, shape.columns, format),
               (cuda::packed_weights_bytes(shape.rows, shape.columns, format) + 255) / 256 * 256) {
    const Memory d_codes(shape.rows * shape.columns), d_zero(shape.rows * groups),
        d_scale(shape.rows * groups * 4);
    upload(d_codes, codes);
    upload(d_zero, zero);
    upload(d_scale, scale);
    expect_ok(
        cuda::pack_weights(d_codes.as<std::uint8_t>(), shape.rows, shape.columns, format,
                           d_scale.as<float>(), d_zero.as<std::uint8_t>(), packed.copy(0), nullptr),
        "pack_weights");
    packed.repeat();
    cudaDeviceSynchronize();
  }

  static std::vector<std::uint8_t> random_codes(std::int64_t count, std::uint64_t stream,
                                                int bits) {
    return random_values<std::uint8_t>(count, stream, [&](std::uint64_t r) {
      return static_cast<std::uint8_t>(r % (1u << bits));
    });
  }
  double value(std::int64_t row, std::int64_t column, std::int64_t columns) const {
    const auto group = static_cast<std::size_t>(row * groups + column / 128);
    return double{scale[group]} *
           (codes[static_cast<std::size_t>(row * columns + column)] - zero[group]);
  }
};

/// The products of one shape. Tokens change from run to run, weights stay.
class Bench {
 public:
  Bench(const cuda::Device& device, double copy_rate, cublasHandle_t cublas, const Shape& shape,
        std::int64_t most_tokens)
      : device_(device),
        copy_rate_(copy_rate),
        cublas_(cublas),
        shape_(shape),
        activations_(random_values<std::uint16_t>(most_tokens * shape.columns, 1, random_f16)),
        int8_activations_(random_int8(most_tokens * shape.columns, 5)),
        int8_weights_(random_int8(shape.rows * shape.columns, 6)),
        f16_(shape.rows * shape.columns * 2, shape.rows * shape.columns * 2),
        int8_(shape.rows * shape.columns, shape.rows * shape.columns),
        x_(most_tokens * shape.columns * 2),
        x8_(most_tokens * shape.columns),
        ones_(std::max(most_tokens, shape.rows) * 4) {
    upload(x_, activations_);
    upload(x8_, int8_activations_);
    upload(f16_.memory, random_values<std::uint16_t>(shape.rows * shape.columns, 7, random_f16));
    f16_.repeat();
    upload(int8_.memory, int8_weights_);
    int8_.repeat();
    upload(ones_,
           std::vector<float>(static_cast<std::size_t>(std::max(most_tokens, shape.rows)), 1.0f));
    for (const int bitwidth : {3, 4, 8})
      quantised_.push_back(std::make_unique<QuantWeights>(shape, bitwidth));
  }

  double w4_of_copy = 0, w4_of_cublas = 0;  // of the last run

  void run(std::int64_t tokens) {
    tokens_ = tokens;
    run_cublas();
    for (const auto& weights : quantised_) run_dequant(*weights);
    if (tokens >= 128) run_int8();
    std::fflush(stdout);
  }

 private:
  /// out = x * w^T in the types given; seconds of a call.
  double time_cublas(const Memory& x, const Weights& w, cudaDataType_t in, cudaDataType_t out_type,
                     cublasComputeType_t compute, const void* one, const void* zero,
                     const char* what) {
    const Memory out(tokens_ * shape_.rows * 4);
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    const double s = seconds(
        [&](int i, cudaStream_t stream) {
          cublasSetStream(cublas_, stream);
          const cublasStatus_t answer =
              cublasGemmEx(cublas_, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(shape_.rows),
                           static_cast<int>(tokens_), static_cast<int>(shape_.columns), one,
                           w.copy(i), in, static_cast<int>(shape_.columns), x.as<void>(), in,
                           static_cast<int>(shape_.columns), zero, out.as<void>(), out_type,
                           static_cast<int>(shape_.rows), compute, CUBLAS_GEMM_DEFAULT);
          if (answer != CUBLAS_STATUS_SUCCESS) status = answer;
        },
        w.copies);
    if (status != CUBLAS_STATUS_SUCCESS) fail(what, cublasGetStatusString(status));
    return s;
  }

  void run_cublas() {
    const float one = 1, zero = 0;
    cublas_s_ = time_cublas(x_, f16_, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F, &one, &zero,
                            "cuBLAS FP16");
    print("cuBLAS FP16", cublas_s_, f16_.size);
  }

  void run_dequant(const QuantWeights& weights) {
    const int bitwidth = weights.format.bitwidth;
    const char* name = bitwidth == 3 ? "W3A16" : bitwidth == 4 ? "W4A16" : "W8A16";
    const cuda::GemmPlan plan = cuda::plan_dequant_gemm(device_, Real::f16, tokens_, shape_.rows,
                                                        shape_.columns, weights.format);
    const Memory out((tokens_ * shape_.rows + 2 * kSentinels) * 4), workspace(plan.workspace_bytes);
    const Call call = [&](int i, cudaStream_t stream) {
      expect_ok(cuda::dequant_gemm(
                    plan, {x_.as<void>(), Real::f16, tokens_, shape_.columns, shape_.columns},
                    {shape_.rows, shape_.columns, weights.format, weights.packed.copy(i)},
                    out.as<float>() + kSentinels, shape_.rows, workspace.as<void>(), stream),
                name);
    };
    const double s = seconds(call, weights.packed.copies);
    const auto expected = [&](std::int64_t token, std::int64_t row) {
      double sum = 0;
      for (std::int64_t k = 0; k < shape_.columns; ++k)
        sum +=
            double{f16_to_f32(activations_[static_cast<std::size_t>(token * shape_.columns + k)])} *
            weights.value(row, k, shape_.columns);
      return sum;
    };
    check(
        out, tokens_, shape_.rows, 1e-6, [&] { call(weights.packed.copies - 1, nullptr); },
        expected, name);
    print(name, s, weights.packed.size);
    if (bitwidth == 4) {
      w4_of_copy = bytes_of_call(weights.packed.size) / s / copy_rate_;
      w4_of_cublas = cublas_s_ / s;
    }
  }

  void run_int8() {
    const std::int32_t one = 1, zero = 0;
    const double theirs = time_cublas(x8_, int8_, CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I, &one,
                                      &zero, "cuBLAS INT8");
    print("cuBLAS INT8", theirs, int8_.size);
    const Memory out((tokens_ * shape_.rows + 2 * kSentinels) * 4);
    const Call call = [&](int i, cudaStream_t stream) {
      expect_ok(
          cuda::int8_gemm(device_, x8_.as<std::int8_t>(), ones_.as<float>(), tokens_,
                          {shape_.rows, shape_.columns,
                           reinterpret_cast<const std::int8_t*>(int8_.copy(i)), ones_.as<float>()},
                          out.as<float>() + kSentinels, shape_.rows, stream),
          "W8A8");
    };
    const double s = seconds(call, int8_.copies);
    const auto expected = [&](std::int64_t token, std::int64_t row) {
      std::int64_t sum = 0;
      for (std::int64_t k = 0; k < shape_.columns; ++k)
        sum += int8_activations_[static_cast<std::size_t>(token * shape_.columns + k)] *
               int8_weights_[static_cast<std::size_t>(row * shape_.columns + k)];
      return static_cast<double>(sum);
    };
    check(
        out, tokens_, shape_.rows, 1e-12, [&] { call(0, nullptr); }, expected, "W8A8");
    print("W8A8", s, int8_.size);
  }

  static std::vector<std::int8_t> random_int8(std::int64_t count, std::uint64_t stream) {
    return random_values<std::int8_t>(count, stream, [](std::uint64_t r) {
      return static_cast<std::int8_t>(static_cast<int>(r % 255) - 127);
    });
  }

  /// What a call must move: weights once, activations and outputs once.
  double bytes_of_call(std::int64_t weight_bytes) const {
    return static_cast<double>(weight_bytes + tokens_ * shape_.columns * 2 +
                               tokens_ * shape_.rows * 4);
  }

  void print(const char* kernel, double s, std::int64_t weight_bytes) const {
    const double bytes = bytes_of_call(weight_bytes);
    const double flop =
        2.0 * static_cast<double>(tokens_ * shape_.rows) * static_cast<double>(shape_.columns);
    std::printf("| %s | %lld | %s | %.1f | %.0f | %.0f %% | %.1f | %.2f |\n", shape_.name,
                static_cast<long long>(tokens_), kernel, s * 1e6, bytes / s * 1e-9,
                100 * bytes / s / copy_rate_, flop / s * 1e-12, cublas_s_ / s);
  }

  cuda::Device device_;
  double copy_rate_;
  cublasHandle_t cublas_;
  Shape shape_;
  std::int64_t tokens_ = 0;
  std::vector<std::uint16_t> activations_;
  std::vector<std::int8_t> int8_activations_, int8_weights_;
  Weights f16_, int8_;
  Memory x_, x8_, ones_;
  std::vector<std::unique_ptr<QuantWeights>> quantised_;
  double cublas_s_ = 0;
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
  const Call call = [&](int, cudaStream_t stream) {
    expect_ok(cuda::moments(x.as<void>(), Real::f16, count, workspace.as<void>(), out.as<Moments>(),
                            stream),
              "moments");
  };
  const double s = seconds(call, 1);
  out.poison(sizeof(Moments));
  call(0, nullptr);
  Moments got;
  test::copy_from_device(&got, out.as<void>(), sizeof got);
  // In double; the kernel's sums of 64 numbers are f32, so its variance has f32's precision.
  double mean = 0, variance = 0;
  float low = INFINITY, high = -INFINITY;
  for (const std::uint16_t value : values) {
    const float number = f16_to_f32(value);
    mean += number;
    variance += double{number} * number;
    low = std::min(low, number);
    high = std::max(high, number);
  }
  mean /= static_cast<double>(kPart);
  variance = variance / static_cast<double>(kPart) - mean * mean;
  if (got.count != count || got.num_not_finite != 0 || got.min != low || got.max != high ||
      !(std::abs(got.mean - mean) <= 1e-8) || !(std::abs(got.variance - variance) <= 1e-7)) {
    std::printf("mean %.12g and variance %.12g, not %.12g and %.12g\n", got.mean, got.variance,
                mean, variance);
    fail("moments", "WRONG");
  }
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
                            {"llama-2-7b down", 4096, 11008}}) {
    Bench bench(devices[0], copy_rate, cublas, shape, most);
    for (const std::int64_t tokens : {1, 2, 4, 8, 16, 32, 64, 128, 512, 2048}) {
      if (tokens > most) continue;
      bench.run(tokens);
      if (shape.rows != 8192) continue;
      if (tokens == 1) of_copy = bench.w4_of_copy;
      if (tokens <= 16) of_cublas = std::min(of_cublas, bench.w4_of_cublas);
    }
  }
  cublasDestroy(cublas);
  bench_moments(copy_rate);
  std::printf(
      "W4A16, 8192 x 8192: one token %.0f %% of the copy (target 80 %%); up to 16 tokens at least "
      "%.2f x cuBLAS FP16 (target 3)\n",
      100 * of_copy, of_cublas);
  return 0;
}
