#include "tessera/workers/pool.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <optional>
#include <string_view>

#include "process.h"
#include "tessera/core/error.h"
#include "tessera/core/units.h"

namespace tessera::workers {
namespace {

using Clock = std::chrono::steady_clock;

/// A process is given as many items ahead as it does in this time, so that short ones do not wait
/// for the pool and long ones do not wait behind each other.
constexpr double kAheadS = 0.02;
constexpr std::size_t kMaxAhead = 64;
/// Of its limit, a process that died had this much in memory: that is what it died of.
constexpr double kFull = 0.7;
constexpr int kMaxFailedStarts = 3;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

std::string describe(const Ending& ending) {
  if (ending.signal != 0) {
    return fmt::format("its process was ended by {} ({})", signal_name(ending.signal),
                       ::sigdescr_np(ending.signal));
  }
  return fmt::format("its process exited with status {} before the answer", ending.exit_code);
}

}  // namespace

class Pool::State {
 public:
  struct Item {
    std::uint64_t id = 0;
    std::string text;
  };

  explicit State(PoolSettings settings) : settings_(std::move(settings)) {
    workers_.resize(static_cast<std::size_t>(std::max(settings_.jobs, 1)));
  }
  ~State() {
    for (Worker& worker : workers_) {
      if (worker.process != nullptr) worker.process->kill();
    }
  }

  void submit(Item item) {
    withdrawn_ = false;
    waiting_.push_back(std::move(item));
  }

  std::vector<Event> wait(double timeout_s) {
    const auto start = Clock::now();
    do {
      hand_out();
      const bool signalled = !look(std::min(timeout_s - seconds_since(start), next_limit_s()));
      keep_limits();
      if (signalled) break;
    } while (events_.empty() && num_open() > 0 && seconds_since(start) < timeout_s);
    hand_out();  // before the caller is busy with what came
    return std::exchange(events_, {});
  }

  std::size_t withdraw() {
    const std::size_t count = waiting_.size();
    waiting_.clear();
    withdrawn_ = true;
    return count;
  }

  std::size_t num_open() const {
    std::size_t count = waiting_.size();
    for (const Worker& worker : workers_) count += worker.items.size();
    return count;
  }

 private:
  struct Worker {
    std::unique_ptr<Process> process;
    std::deque<Item> items;     ///< given to it; the first is being done
    Clock::time_point started;  ///< of the first item, or of a process that is not ready
    double mean_s = kAheadS;    ///< of its items, the recent ones counting more
    bool ready = false, leaves = false, killed = false, meddled = false;
  };

  void hand_out() {
    for (Worker& worker : workers_) {
      if (waiting_.empty()) return;
      if (worker.process == nullptr) start(worker);
      if (!worker.ready || worker.leaves) continue;
      const std::size_t fair = (waiting_.size() + workers_.size() - 1) / workers_.size();
      const auto ahead = static_cast<std::size_t>(kAheadS / std::max(worker.mean_s, 1e-6));
      const std::size_t target = std::clamp<std::size_t>(std::min(ahead, fair), 1, kMaxAhead);
      while (worker.items.size() < target && !waiting_.empty()) give(worker);
    }
  }

  void start(Worker& worker) {
    worker = Worker{};
    worker.process = std::make_unique<Process>(settings_);
    worker.started = Clock::now();
  }

  void give(Worker& worker) {
    Item item = std::move(waiting_.front());
    waiting_.pop_front();
    if (worker.items.empty()) worker.started = Clock::now();
    worker.process->send(item.id, item.text);
    worker.items.push_back(std::move(item));
  }

  // False where a signal ended the wait.
  bool look(double timeout_s) {
    std::vector<pollfd> files;
    for (const Worker& worker : workers_) {
      if (worker.process == nullptr) continue;
      const short writes = worker.process->has_output() ? POLLOUT : 0;
      files.push_back({worker.process->socket(), static_cast<short>(POLLIN | writes), 0});
      files.push_back({worker.process->log(), POLLIN, 0});
    }
    const int milliseconds = static_cast<int>(std::clamp(timeout_s, 0.0, 600.0) * 1000 + 0.999);
    const int changed = ::poll(files.data(), files.size(), milliseconds);
    if (changed < 0) return errno != EINTR;
    std::size_t i = 0;
    for (Worker& worker : workers_) {
      if (worker.process == nullptr) continue;
      const short line = files[i].revents, log = files[i + 1].revents;
      i += 2;
      if ((line & POLLOUT) != 0) worker.process->flush();
      if (log != 0) worker.process->read_log();
      if ((line & (POLLIN | POLLHUP | POLLERR)) != 0) read(worker);
    }
    return true;
  }

  void read(Worker& worker) {
    std::vector<Frame> frames;
    bool open = worker.process->receive(frames);
    for (Frame& frame : frames) {
      if ((frame.header.flags & kReady) != 0 && !worker.ready) {
        worker.ready = true;
        failed_starts_ = 0;
      } else if (worker.items.empty() || worker.items.front().id != frame.header.id) {
        worker.meddled = true;
        open = false;
        break;
      } else {
        take_answer(worker, frame);
      }
    }
    if (worker.process->is_broken()) worker.meddled = true;
    if (worker.meddled) worker.process->kill();
    if (!open || worker.leaves) bury(worker);
  }

  void take_answer(Worker& worker, Frame& frame) {
    const double duration_s = seconds_since(worker.started);
    worker.items.pop_front();
    worker.started = Clock::now();
    worker.mean_s = 0.7 * worker.mean_s + 0.3 * duration_s;
    worker.leaves = (frame.header.flags & kLast) != 0;
    events_.push_back({frame.header.id, Outcome::done, std::move(frame.text), "",
                       worker.process->log_of(frame.header.id), duration_s});
  }

  // What a dead process leaves: the outcome of the item it was at; the others wait again.
  void bury(Worker& worker) {
    const double duration_s = seconds_since(worker.started);
    std::string log = worker.process->rest_of_log();
    const Ending ending = worker.process->end();
    log += worker.process->rest_of_log();
    const Worker dead = std::exchange(worker, Worker{});
    std::deque<Item> items = dead.items;
    if (!dead.ready) {
      if (++failed_starts_ >= kMaxFailedStarts) fail_start(ending, log);
    } else if (!items.empty() && !dead.leaves) {
      Event event{items.front().id, Outcome::crashed, "", "", std::move(log), duration_s};
      explain(dead, ending, event);
      events_.push_back(std::move(event));
      items.pop_front();
    }
    if (!withdrawn_) waiting_.insert(waiting_.begin(), items.begin(), items.end());
  }

  void explain(const Worker& dead, const Ending& ending, Event& event) const {
    const bool full =
        settings_.memory_bytes > 0 && ending.peak_bytes > kFull * settings_.memory_bytes;
    if (dead.meddled) {
      event.message = "its process wrote what is no answer into the line to the pool";
    } else if (dead.killed || event.duration_s > settings_.time_limit_s) {
      event.outcome = Outcome::time_limit;
      event.message = fmt::format("still running at its time limit of {:g} s, and stopped",
                                  settings_.time_limit_s);
    } else if (full || event.log.find("std::bad_alloc") != std::string::npos) {
      event.outcome = Outcome::out_of_memory;
      event.message =
          fmt::format("{} at {} of memory; the limit is {}", describe(ending),
                      format_bytes(ending.peak_bytes), format_bytes(settings_.memory_bytes));
    } else {
      event.message = describe(ending);
      if (ending.signal == SIGKILL) {
        event.message += "; nobody here sent it: perhaps the system, which was out of memory";
      }
    }
  }

  [[noreturn]] void fail_start(const Ending& ending, const std::string& log) const {
    const std::size_t end = log.find_last_not_of('\n');
    const std::size_t from = log.rfind('\n', end) + 1;
    const std::string last = end == std::string::npos ? "" : log.substr(from, end - from + 1);
    throw Error(ErrorCode::io,
                fmt::format("worker processes end before they are ready, {} times in a row: {}{}{}",
                            failed_starts_, describe(ending), last.empty() ? "" : ": ", last));
  }

  double limit_of(const Worker& worker) const {
    if (!worker.ready) return settings_.start_limit_s;
    return settings_.time_limit_s + settings_.grace_s;
  }

  double next_limit_s() const {
    double next = 600;
    for (const Worker& worker : workers_) {
      if (worker.process == nullptr || (worker.ready && worker.items.empty())) continue;
      next = std::min(next, limit_of(worker) - seconds_since(worker.started));
    }
    return std::max(next, 0.0);
  }

  void keep_limits() {
    for (Worker& worker : workers_) {
      if (worker.process == nullptr || (worker.ready && worker.items.empty())) continue;
      if (seconds_since(worker.started) < limit_of(worker)) continue;
      worker.killed = true;
      worker.process->kill();
      bury(worker);
    }
  }

  PoolSettings settings_;
  std::vector<Worker> workers_;
  std::deque<Item> waiting_;
  std::vector<Event> events_;
  int failed_starts_ = 0;
  bool withdrawn_ = false;
};

Pool::Pool(PoolSettings settings) : state_(std::make_unique<State>(std::move(settings))) {}
Pool::~Pool() = default;

void Pool::submit(std::uint64_t id, std::string text) { state_->submit({id, std::move(text)}); }
std::vector<Event> Pool::wait(double timeout_s) { return state_->wait(timeout_s); }
std::size_t Pool::withdraw() { return state_->withdraw(); }
std::size_t Pool::num_open() const { return state_->num_open(); }

namespace {

/// The number after a name in a file of lines, a name each; empty: it is not there.
std::optional<double> number_in(const char* path, std::string_view name) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    if (word != name) continue;
    double number = 0;
    if (file >> number) return number;
    return std::nullopt;
  }
  return std::nullopt;
}

/// The number that a file is, of the control group; empty: there is none, or no limit.
std::optional<double> of_group(const std::string& name) {
  std::ifstream file("/sys/fs/cgroup/" + name);
  double number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

}  // namespace

double machine_memory_bytes() {
  const double bytes = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                       static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  const auto limit = of_group("memory.max");
  return limit && *limit > 0 ? std::min(bytes, *limit) : bytes;
}

double free_memory_bytes() {
  constexpr double kKiB = 1024;
  const auto available = number_in("/proc/meminfo", "MemAvailable:");
  double bytes = available ? *available * kKiB : machine_memory_bytes();
  const auto limit = of_group("memory.max"), used = of_group("memory.current");
  if (limit && used) {
    const double files = number_in("/sys/fs/cgroup/memory.stat", "file").value_or(0);
    bytes = std::min(bytes, *limit - *used + files);
  }
  return std::max(bytes, 0.0);
}

}  // namespace tessera::workers
