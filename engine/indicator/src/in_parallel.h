#pragma once

#include <cstdint>
#include <functional>

namespace tessera::indicator {

/// Calls f(i) for every i below `count` on several threads (0: as many as there are processors).
/// @throws what the call of the smallest i threw; the others have ended by then
void in_parallel(int num_threads, std::int64_t count, const std::function<void(std::int64_t)>& f);

}  // namespace tessera::indicator
