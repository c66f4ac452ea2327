#include "tessera/profile/cores.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <latch>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "tessera/core/cpu_cores.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/units.h"

namespace tessera::profile {
namespace {

std::optional<std::string> text_of(const std::string& path) {
  try {
    return read_file(path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The value of a line "KEY : VALUE".
std::optional<std::string> value_of(const std::optional<std::string>& text,
                                    const std::string& key) {
  std::istringstream lines(text.value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, key.size(), key) != 0) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    if (start != std::string::npos) return line.substr(start);
  }
  return std::nullopt;
}

std::optional<double> number_of(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text->c_str(), &end);
  if (end == text->c_str()) return std::nullopt;  // "max"
  return value;
}

// What the control group leaves: version 2, else 1, whose root says more than any machine has.
double group_memory_bytes(double otherwise) {
  const std::string root = "/sys/fs/cgroup/";
  for (const auto& [limit, used] :
       {std::pair{"memory.max", "memory.current"},
        {"memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"}}) {
    const auto most = number_of(text_of(root + limit)), taken = number_of(text_of(root + used));
    if (most && taken) return std::min(otherwise, std::max(*most - *taken, 0.0));
  }
  return otherwise;
}

double largest_cache_bytes() {
  double most = 0;
  for (int i = 0; i < 8; ++i) {
    const auto text =
        text_of("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + "/size");
    const auto size = number_of(text);
    if (!size) continue;
    const double unit = text->find('M') != std::string::npos ? kMiB : 1024;
    most = std::max(most, *size * unit);
  }
  return most;
}

}  // namespace

Cpu this_cpu() {
  Cpu cpu;
  const auto info = text_of("/proc/cpuinfo");
  cpu.name = value_of(info, "model name").value_or("CPU");
  cpu.cores = usable_cores();
  if (cpu.cores.empty()) cpu.cores = {0};
  const double kib = number_of(value_of(text_of("/proc/meminfo"), "MemAvailable")).value_or(0);
  cpu.memory_bytes = group_memory_bytes(kib * 1024);
  cpu.cache_bytes = largest_cache_bytes();
  return cpu;
}

Pinned::Pinned(const Cpu& cpu, std::int64_t count) {
  if (count <= 0) return;
  before_ = usable_cores();
  const auto end = cpu.cores.begin() + std::min(count, cpu.num_cores());
  keep_to_cores({cpu.cores.begin(), end});  // one that cannot be pinned runs where it is
}

Pinned::~Pinned() { keep_to_cores(before_); }

struct OtherCores::State {
  explicit State(std::int64_t count) : running(count) {}

  std::atomic<bool> stopped = false;
  std::latch running;
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::thread> threads;

  void fail() {
    const std::lock_guard lock(mutex);
    failure = std::current_exception();
  }
  void join() {
    stopped = true;
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }
};

OtherCores::OtherCores(const Cpu& cpu, std::int64_t first, std::int64_t count,
                       std::function<void(std::int64_t)> load) {
  const std::int64_t threads = std::clamp<std::int64_t>(cpu.num_cores() - first, 0, count);
  state_ = std::make_unique<State>(threads);
  for (std::int64_t i = 0; i < threads; ++i) {
    const int core = cpu.cores[static_cast<std::size_t>(first + i)];
    state_->threads.emplace_back([state = state_.get(), i, load, core] {
      keep_to_cores({core});
      bool counted = false;
      try {
        do {
          load(i);
          if (!counted) state->running.count_down();
          counted = true;
        } while (!state->stopped);
      } catch (...) {  // nothing may leave a thread; who stops it gets it
        state->fail();
        if (!counted) state->running.count_down();
      }
    });
  }
  state_->running.wait();
}

OtherCores::~OtherCores() { state_->join(); }

void OtherCores::stop() {
  state_->join();
  if (state_->failure) std::rethrow_exception(state_->failure);
}

}  // namespace tessera::profile
