#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tessera/kernels/info.h"
#include "tessera/kernels/types.h"

// What the tests of the kernels share.
namespace tessera::kernels::test {

/// TESSERA_TEST_SEED, or a fixed one; every failure prints it.
inline std::uint64_t seed() {
  const char* text = std::getenv("TESSERA_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20240607;
}

inline std::string seed_line() { return "TESSERA_TEST_SEED=" + std::to_string(seed()); }

/// Memory with sentinels on both sides and poison inside; `misalign` elements off a cache line.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::int64_t count, std::int64_t misalign = 0)
      : count_(count), bytes_(static_cast<std::size_t>(count) * sizeof(T) + 3 * kMargin, kPoison) {
    const auto start = reinterpret_cast<std::uintptr_t>(bytes_.data());
    first_ = kMargin + (kMargin - start % kMargin) % kMargin +
             static_cast<std::size_t>(misalign) * sizeof(T);
  }
  T* data() { return reinterpret_cast<T*>(bytes_.data() + first_); }
  T& operator[](std::int64_t i) { return data()[i]; }
  std::vector<T> copy() { return std::vector<T>(data(), data() + count_); }

  /// Bytes outside that were written.
  std::int64_t num_touched() const {
    const std::size_t last = first_ + static_cast<std::size_t>(count_) * sizeof(T);
    std::int64_t touched = 0;
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      if ((i < first_ || i >= last) && bytes_[i] != kPoison) ++touched;
    }
    return touched;
  }

 private:
  static constexpr std::size_t kMargin = 64;
  static constexpr unsigned char kPoison = 0xa5;
  std::int64_t count_;
  std::vector<unsigned char> bytes_;
  std::size_t first_;
};

/// `values` stored as `type`, with the bytes in `memory`, `misalign` elements off a cache line.
struct Stored {
  Stored(const std::vector<float>& values, Real real, std::int64_t misalign = 0)
      : type(real),
        memory(static_cast<std::int64_t>(values.size()) * size_of(real), misalign * size_of(real)) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i) * size_of(type);
      if (type == Real::f32) {
        std::memcpy(memory.data() + at, &values[i], 4);
      } else {
        const std::uint16_t bits =
            type == Real::f16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
        std::memcpy(memory.data() + at, &bits, 2);
      }
    }
  }
  float operator[](std::int64_t i) {
    if (type == Real::f32) {
      float value;
      std::memcpy(&value, memory.data() + 4 * i, 4);
      return value;
    }
    std::uint16_t bits;
    std::memcpy(&bits, memory.data() + 2 * i, 2);
    return type == Real::f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
  }
  Real type;
  Guarded<unsigned char> memory;
};

inline std::vector<float> normal_values(std::int64_t count, std::uint64_t stream, double mean = 0,
                                        double deviation = 1) {
  std::mt19937_64 random(seed() + stream);
  std::normal_distribution<double> normal(mean, deviation);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(normal(random));
  return values;
}

/// Sum of squared errors over the sum of squares.
inline double nmse(const std::vector<float>& got, const std::vector<double>& expected) {
  double error = 0, power = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double off = double{got[i]} - expected[i];
    error += off * off;
    power += expected[i] * expected[i];
  }
  return std::isnan(error) ? error : error / std::max(power, 1e-300);
}

/// Every instruction set that some kernel has a version for.
inline std::vector<std::string> all_isas() {
  std::vector<std::string> names;
  for (const KernelInfo& kernel : cpu_kernels()) {
    if (std::find(names.begin(), names.end(), kernel.isa) == names.end()) {
      names.emplace_back(kernel.isa);
    }
  }
  return names;
}

/// Runs `f` once with the versions for each instruction set that this machine has.
template <class F>
void for_each_isa(const F& f) {
  for (const std::string& isa : all_isas()) {
    if (!use_isa(isa.c_str())) continue;
    SCOPED_TRACE(isa + ", " + seed_line());
    f(isa);
    if (::testing::Test::HasFatalFailure()) break;
  }
  use_isa(nullptr);
}

}  // namespace tessera::kernels::test
