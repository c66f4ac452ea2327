#include "in_parallel.h"

#include <exception>
#include <vector>

#include "tessera/kernels/parallel.h"

namespace tessera::indicator {

void in_parallel(int num_threads, std::int64_t count, const std::function<void(std::int64_t)>& f) {
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(count));
  const auto call = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      try {
        f(i);
      } catch (...) {  // an exception must not leave a thread of the pool
        thrown[static_cast<std::size_t>(i)] = std::current_exception();
      }
    }
  };
  kernels::for_slices(num_threads > 0 ? num_threads : kernels::hardware_threads(), count, 1, call);
  for (const std::exception_ptr& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
}

}  // namespace tessera::indicator
