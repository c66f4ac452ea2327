#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace tessera::kernels {

/// The work of for_slices() without its type: call(f, first, last).
struct SliceCall {
  void (*call)(void* f, std::int64_t first, std::int64_t last);
  void* f;
};
void call_slices(int num_threads, std::int64_t count, std::int64_t grain, SliceCall slice);

/// Calls f(first, last) for [0, grain), [grain, 2 grain), ... up to `count` on `num_threads`
/// threads, of which the caller is one, and returns when all are done. The slices do not depend on
/// the number of threads, so neither does a result that is put together from them in order. `f`
/// must not throw. Called from inside `f`, or while another thread is using the pool, it runs on
/// the caller alone. A thread that is late is not waited for: the others do its slices. The other
/// threads stay for the next call; they are the only ones that the kernels make. Does nothing where
/// count, grain or num_threads is not positive.
template <class F>
void for_slices(int num_threads, std::int64_t count, std::int64_t grain, F&& f) {
  using Function = std::remove_reference_t<F>;
  using Plain = std::remove_const_t<Function>;
  call_slices(num_threads, count, grain,
              {[](void* g, std::int64_t first, std::int64_t last) {
                 (*static_cast<Function*>(static_cast<Plain*>(g)))(first, last);
               },
               const_cast<Plain*>(std::addressof(f))});
}

/// Threads that the machine can run at once, at least 1.
int hardware_threads();

}  // namespace tessera::kernels
