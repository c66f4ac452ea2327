#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// Benchmarks of the kernels are comparisons: what is compared runs in turn, round after round, so
// that a busy machine slows all of them down alike.
namespace tessera::kernels::bench {

struct Contender {
  std::string name;
  std::function<void()> run;
  double bytes = 0;       ///< that it must read; 0: not printed
  double operations = 0;  ///< multiplications and additions; 0: not printed
};

/// Runs every contender `rounds` times and prints a line for each: median time, its quartiles, GB/s
/// or GFLOP/s, and the median over the rounds of how much faster it was than the first contender.
/// What runs on one thread is measured in its CPU time, which a busy machine hardly changes; what
/// runs on more in time on the wall.
void compare(const std::string& title, int threads, int rounds,
             const std::vector<Contender>& contenders);

/// Prints what could not be compared, and why.
void skip(const std::string& name, const std::string& why);

/// Ends the program where a benchmark's result is wrong: a wrong result has no time.
void check(bool right, const std::string& what);

/// A function of a shared library that is only looked for when the program runs; null without it.
void* find_function(const std::vector<const char*>& libraries, const char* name);

/// Reads bytes with AVX2 and adds them up as integers: nothing but loads and additions.
std::int64_t plain_sum(const void* from, std::int64_t bytes);

void bench_moments(bool quick);
void bench_indicator(bool quick);
void bench_decoder(bool quick);
void bench_gemv(bool quick);
void bench_int8(bool quick);

}  // namespace tessera::kernels::bench
