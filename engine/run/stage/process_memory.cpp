#include "tessera/run/process_memory.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>

namespace tessera::run {

ProcessMemory process_memory() {
  static std::atomic<std::int64_t> peak{0};
  ProcessMemory memory;
  std::int64_t size = 0, resident = 0, of_files = 0;  // pages
  if (std::ifstream("/proc/self/statm") >> size >> resident >> of_files) {
    memory.anonymous_bytes = (resident - of_files) * ::sysconf(_SC_PAGESIZE);
  }
  std::int64_t most = peak.load();
  while (most < memory.anonymous_bytes &&
         !peak.compare_exchange_weak(most, memory.anonymous_bytes)) {
  }
  memory.peak_bytes = std::max(most, memory.anonymous_bytes);
  return memory;
}

MemoryWatch::MemoryWatch()
    : thread_([](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          process_memory();
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
      }) {}

}  // namespace tessera::run
