#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// What all measurements of kernels share.
namespace tessera::linear {

inline constexpr std::int64_t kColdBytes = std::int64_t{128} << 20;  ///< more than a last cache
inline constexpr double kLongestRepeat_s = 0.5;
inline constexpr double kMostNmse = 1e-9;  ///< sums in f32, gemm.h, gemm_a8.h, norm.h, attention.h

/// Numbers of [-1, 1) by their index.
std::vector<float> numbers(std::int64_t count, std::uint64_t from);
float number(std::uint64_t i);

/// Makes calls use the versions for an instruction set while it lives; "" the fastest.
class WithIsa {
 public:
  /// @throws Error{invalid_argument} for one that does not run here
  explicit WithIsa(const std::string& isa);
  ~WithIsa();
  WithIsa(const WithIsa&) = delete;
  WithIsa& operator=(const WithIsa&) = delete;

 private:
  bool is_set_;
};

/// The version of a kernel that a call takes.
std::string chosen_isa(std::string_view kernel);

/// Seconds of a call, over all copies, or those that there was time for.
template <class Call>
double time_copies(std::int64_t copies, const std::atomic<bool>* stop, const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  std::chrono::duration<double> took{0};
  std::int64_t done = 0;
  while (done < copies && took.count() < kLongestRepeat_s && !(stop != nullptr && *stop)) {
    call(done++);
    took = std::chrono::steady_clock::now() - start;
  }
  return took.count() / static_cast<double>(done > 0 ? done : 1);
}

}  // namespace tessera::linear
