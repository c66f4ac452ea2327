#pragma once

#include <cstdint>
#include <functional>

namespace tessera::kernels {

/// Calls f(first, last) for [0, grain), [grain, 2 grain), ... up to `count` on `num_threads`
/// threads, of which the caller is one, and returns when all are done. The slices do not depend on
/// the number of threads, so neither does a result that is put together from them in order. `f`
/// must not throw. Called from inside `f`, or while another thread is using the pool, it runs on
/// the caller alone. The other threads stay for the next call; they are the only ones that the
/// kernels make. Does nothing where count, grain or num_threads is not positive.
void for_slices(int num_threads, std::int64_t count, std::int64_t grain,
                const std::function<void(std::int64_t first, std::int64_t last)>& f);

/// Threads that the machine can run at once, at least 1.
int hardware_threads();

}  // namespace tessera::kernels
