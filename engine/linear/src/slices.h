#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>

#include "tessera/core/error.h"
#include "tessera/kernels/gemm.h"
#include "tessera/kernels/parallel.h"

// Rows shared among threads, in whole blocks of the kernels.
namespace tessera::linear {

inline int threads_of(int num_threads) {
  return num_threads > 0 ? num_threads : kernels::hardware_threads();
}

inline std::int64_t whole_blocks(std::int64_t rows) {
  return (rows + kernels::kRowsPerBlock - 1) / kernels::kRowsPerBlock * kernels::kRowsPerBlock;
}

inline void expect_ok(kernels::Status status, const char* what) {
  if (status == kernels::Status::ok) return;
  throw Error(ErrorCode::internal, fmt::format("{}: {}", what, kernels::describe(status)));
}

/// Calls f(first, last) for all of `rows`, for work done once; f may throw, and what the first of
/// the slices that threw has thrown is thrown again.
template <class F>
void for_rows(int num_threads, std::int64_t rows, const F& f) {
  constexpr std::int64_t kRows = 4 * kernels::kRowsPerBlock;
  std::mutex mutex;
  std::int64_t thrown_at = rows;
  std::exception_ptr thrown;
  const auto slice = [&](std::int64_t first, std::int64_t last) {
    try {
      f(first, last);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (first >= thrown_at) return;
      thrown_at = first;
      thrown = std::current_exception();
    }
  };
  kernels::for_slices(threads_of(num_threads), rows, kRows, std::ref(slice));
  if (thrown) std::rethrow_exception(thrown);
}

/// Calls `product(rows)` for all outputs. Slices are long: what a call does with the activations
/// before it multiplies is done again for each. No memory is allocated.
template <class Product>
void multiply(int num_threads, std::int64_t outputs, const Product& product) {
  constexpr std::int64_t kFewest = 64;
  const std::int64_t threads = threads_of(num_threads);
  // More slices than threads, for a thread that another program keeps waiting.
  const std::int64_t slices = threads == 1 ? 1 : 2 * threads;
  const std::int64_t grain = std::max(kFewest, whole_blocks((outputs + slices - 1) / slices));
  std::atomic<kernels::Status> answer{kernels::Status::ok};
  const auto slice = [&](std::int64_t first, std::int64_t last) {
    const kernels::Status status = product(kernels::Rows{first, last});
    if (status != kernels::Status::ok) answer = status;
  };
  kernels::for_slices(static_cast<int>(threads), outputs, grain, std::ref(slice));
  expect_ok(answer, "a product with a weight matrix");
}

}  // namespace tessera::linear
