#pragma once

#include <cstdint>
#include <thread>

namespace tessera::run {

/// Of this process, as Linux counts it; 0 where it does not say.
struct ProcessMemory {
  std::int64_t anonymous_bytes = 0;  ///< resident, files that are mapped aside
  std::int64_t peak_bytes = 0;       ///< the most that anonymous_bytes was seen to be
};
/// Reads it now.
ProcessMemory process_memory();

/// Looks at it every 2 ms while this lives: what is needed for a moment is in the peak.
class MemoryWatch {
 public:
  MemoryWatch();

 private:
  std::jthread thread_;
};

}  // namespace tessera::run
