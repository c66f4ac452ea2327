#include "tessera/core/cpu_cores.h"

#include <sched.h>

namespace tessera {

std::vector<std::int32_t> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<std::int32_t> cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (std::int32_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  }
  return cores;
}

bool keep_to_cores(const std::vector<std::int32_t>& cores) {
  if (cores.empty()) return true;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const std::int32_t core : cores) {
    if (core < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(core), &set);
  }
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace tessera
