#include "tessera/run/process_memory.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>

namespace tessera::run {

ProcessMemory process_memory() {
  static std::atomic<std::int64_t> peak{0};
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "RssAnon:") continue;
    std::int64_t kib = 0;
    status >> kib;
    memory.anonymous_bytes = kib * 1024;
  }
  std::int64_t most = peak.load();
  while (most < memory.anonymous_bytes &&
         !peak.compare_exchange_weak(most, memory.anonymous_bytes)) {
  }
  memory.peak_bytes = std::max(most, memory.anonymous_bytes);
  return memory;
}

}  // namespace tessera::run
