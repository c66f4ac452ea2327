#pragma once

#include <random>

#include "../kernels/support.h"
#include "device_memory.h"

// What the tests of the CUDA kernels share, on a GPU and in the emulator.
namespace tessera::kernels::test {

/// TESSERA_TEST_SEED; without it fresh on a GPU, where the tests take seconds, and fixed in the
/// emulator, which runs in CI.
inline std::uint64_t gpu_seed() {
  static const std::uint64_t chosen =
      std::getenv("TESSERA_TEST_SEED") != nullptr || emulated() ? seed() : std::random_device{}();
  return chosen;
}

/// Runs f(device) on every device; skips, visibly, where there is none.
template <class F>
void for_each_device(F&& f) {
  const auto all = devices();
  if (all.empty()) GTEST_SKIP() << "no CUDA device";
  for (const cuda::Device& device : all) {
    SCOPED_TRACE("sm_" + std::to_string(device.compute_capability) +
                 (emulated() ? " (emulated)" : "") +
                 ", TESSERA_TEST_SEED=" + std::to_string(gpu_seed()));
    use_device(device);
    f(device);
    ASSERT_EQ(device_synchronise(), "");
    if (::testing::Test::HasFailure()) return;
  }
}

/// `count` elements of device memory, poisoned, between sentinels; `misalign` bytes off a multiple
/// of 256.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::int64_t count, std::int64_t misalign = 0)
      : count_(count),
        misalign_(misalign),
        host_(static_cast<std::size_t>(size() + 2 * kMargin + misalign), kPoison) {
    memory_ = static_cast<unsigned char*>(device_allocate(num_bytes()));
    copy_to_device(memory_, host_.data(), num_bytes());
  }
  explicit DeviceArray(const std::vector<T>& values, std::int64_t misalign = 0)
      : DeviceArray(static_cast<std::int64_t>(values.size()), misalign) {
    copy_to_device(data(), values.data(), size());
  }
  ~DeviceArray() { device_free(memory_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return reinterpret_cast<T*>(memory_ + kMargin + misalign_); }
  std::vector<T> download() const {
    std::vector<T> values(static_cast<std::size_t>(count_));
    copy_from_device(values.data(), data(), size());
    return values;
  }
  /// Bytes of the sentinels that were written.
  std::int64_t num_touched() {
    copy_from_device(host_.data(), memory_, num_bytes());
    std::int64_t touched = 0;
    for (std::int64_t i = 0; i < num_bytes(); ++i) {
      const bool inside = i >= kMargin + misalign_ && i < kMargin + misalign_ + size();
      touched += !inside && host_[static_cast<std::size_t>(i)] != kPoison;
    }
    return touched;
  }

 private:
  static constexpr std::int64_t kMargin = 256;
  static constexpr unsigned char kPoison = 0xff;  // NaN in every real type
  std::int64_t size() const { return count_ * static_cast<std::int64_t>(sizeof(T)); }
  std::int64_t num_bytes() const { return static_cast<std::int64_t>(host_.size()); }
  std::int64_t count_, misalign_;
  std::vector<unsigned char> host_;
  unsigned char* memory_;
};

/// Random values of a type, as floats (rounded to it) and as bytes.
struct RandomMatrix {
  RandomMatrix(Real real, std::int64_t num_rows, std::int64_t num_columns, std::int64_t row_stride,
               std::mt19937_64& random, float mean = 0)
      : type(real), rows(num_rows), columns(num_columns), stride(row_stride) {
    std::normal_distribution<float> normal(mean);
    for (std::int64_t i = 0; i < rows * stride; ++i) {
      // What lies between the rows must not count.
      const float value =
          i % stride < columns ? normal(random) : std::numeric_limits<float>::quiet_NaN();
      const std::uint16_t half = type == Real::f16 ? f32_to_f16(value) : f32_to_bf16(value);
      const float rounded = type == Real::f32   ? value
                            : type == Real::f16 ? f16_to_f32(half)
                                                : bf16_to_f32(half);
      values.push_back(rounded);
      const auto* from = type == Real::f32 ? reinterpret_cast<const unsigned char*>(&rounded)
                                           : reinterpret_cast<const unsigned char*>(&half);
      bytes.insert(bytes.end(), from, from + size_of(type));
    }
  }
  Matrix on(const void* data) const { return {data, type, rows, columns, stride}; }
  float at(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * stride + column)];
  }
  Real type;
  std::int64_t rows, columns, stride;
  std::vector<float> values;
  std::vector<unsigned char> bytes;
};

inline std::int64_t uniform(std::mt19937_64& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

}  // namespace tessera::kernels::test
