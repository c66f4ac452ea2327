#include "tessera/sandbox/supervise.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "relay.h"
#include "tessera/core/error.h"
#include "tessera/core/signal_action.h"
#include "tessera/core/terminal_text.h"
#include "tessera/core/thread_pool.h"
#include "tessera/core/units.h"

namespace tessera::sandbox {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFailed = 1, kInterrupted = 130;
constexpr double kGraceS = 2;

std::atomic<int> num_interrupts{0};
void count_interrupt(int) { num_interrupts.fetch_add(1); }

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Resident memory of a process (bytes), or 0 where it has just ended.
double resident_bytes(pid_t id) {
  std::FILE* file = std::fopen(fmt::format("/proc/{}/statm", id).c_str(), "re");
  if (file == nullptr) return 0;
  unsigned long total = 0, resident = 0;
  const int found = std::fscanf(file, "%lu %lu", &total, &resident);
  std::fclose(file);
  return found == 2 ? static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE))
                    : 0;
}

// What the new process must not share with us before it does anything.
void stand_alone(pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != parent) ::_exit(kFailed);  // it died before the line above
  std::signal(SIGINT, SIG_DFL);
  // A process in the background that reads from a terminal is stopped for good.
  if (::isatty(STDIN_FILENO) == 1) {
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(nothing, STDIN_FILENO);
    ::close(nothing);
  }
}

void close_everything_else() {
  const int last = static_cast<int>(std::min(::sysconf(_SC_OPEN_MAX), 65536L));
  if (::close_range(3, ~0u, 0) == 0) return;
  for (int fd = 3; fd < last; ++fd) ::close(fd);
}

/// Watches one process until it ends, or ends it.
class Watch {
 public:
  Watch(pid_t id, const Limits& limits, const Relay& out, const Relay& err)
      : id_(id), limits_(limits), out_(out), err_(err) {}

  int wait() {
    int status = 0;
    for (int pause_us = 500;; pause_us = std::min(2 * pause_us, 20'000)) {
      const pid_t ended = ::waitpid(id_, &status, WNOHANG);
      if (ended == id_ || (ended < 0 && errno != EINTR)) break;
      if (reason_.empty()) look();
      ::usleep(static_cast<useconds_t>(pause_us));
    }
    ::kill(-id_, SIGKILL);  // whatever it may have left behind
    return status;
  }

  /// Why it was ended, or "".
  const std::string& reason() const { return reason_; }

 private:
  void end(std::string reason) {
    reason_ = std::move(reason);
    ::kill(-id_, SIGKILL);
  }

  void look() {
    const double elapsed_s = seconds_since(start_);
    if (elapsed_s > limits_.time_limit_s) {
      return end(
          fmt::format("the sandbox stopped the script at its time limit of {} s; "
                      "--sandbox-time-limit-s allows more",
                      format_number(limits_.time_limit_s)));
    }
    const double used = resident_bytes(id_);
    if (used > limits_.memory_bytes + own_memory_bytes()) {
      return end(
          fmt::format("the sandbox stopped the script at {} of memory, the limit is {}; "
                      "--sandbox-memory-gib allows more",
                      format_bytes(used), format_bytes(limits_.memory_bytes)));
    }
    if (std::max(out_.passed_bytes(), err_.passed_bytes()) > limits_.printed_bytes) {
      return end(
          fmt::format("the sandbox stopped the script after it had printed {}; write to a "
                      "file in the output folder instead",
                      format_bytes(limits_.printed_bytes)));
    }
    if (num_interrupts > passed_on_) {
      passed_on_ = num_interrupts;
      interrupted_at_ = interrupted_at_.value_or(elapsed_s);
      ::kill(id_, SIGINT);
    }
    if (interrupted_at_ && elapsed_s > *interrupted_at_ + kGraceS) end("interrupted by Ctrl-C");
  }

  pid_t id_;
  const Limits& limits_;
  const Relay& out_;
  const Relay& err_;
  Clock::time_point start_ = Clock::now();
  std::string reason_;
  int passed_on_ = 0;
  std::optional<double> interrupted_at_;
};

}  // namespace

double own_memory_bytes() {
  const auto threads = static_cast<double>(hardware_threads());
#ifdef __SANITIZE_ADDRESS__
  constexpr double kSanitizerMiB = 1024;  // shadow, and what it keeps from being used again
#else
  constexpr double kSanitizerMiB = 0;
#endif
  return (256 + 16 * threads + kSanitizerMiB) * 1024 * 1024;
}

int supervise(const Limits& limits, const std::function<int()>& work) {
  num_interrupts = 0;
  const SignalAction counted(SIGINT, count_interrupt);
  Relay out(STDOUT_FILENO), err(STDERR_FILENO);
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t id = ::fork();
  if (id < 0) {
    throw Error(ErrorCode::io, fmt::format("cannot start a process: {}", std::strerror(errno)));
  }
  if (id == 0) {
    stand_alone(parent);
    out.connect();
    err.connect();
    close_everything_else();
    const int status = work();
    std::fflush(nullptr);
    ::_exit(status);
  }
  ::setpgid(id, id);  // here too, because either process may be first
  out.start();
  err.start();
  Watch watch(id, limits, out, err);
  const int status = watch.wait();
  out.finish();
  err.finish();
  if (!watch.reason().empty()) write_text(stderr, fmt::format("tessera: {}\n", watch.reason()));
  if (num_interrupts > 0) return kInterrupted;
  if (!watch.reason().empty()) return kFailed;
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  write_text(stderr,
             fmt::format("tessera: the process of the sandboxed script died of signal {} ({})\n",
                         WTERMSIG(status), ::strsignal(WTERMSIG(status))));
  return kFailed;
}

}  // namespace tessera::sandbox
