#include "tessera/lua_kit/interrupt.h"

#include <fmt/format.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/terminal_text.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/guard.h"

namespace tessera::lua_kit::interrupt {
namespace {

// A signal handler can reach nothing but globals. Everything here is lock-free or a semaphore,
// except the incumbent, which the handler does not touch.
std::atomic<bool> requested{false};
std::atomic<int> num_signals{0};
std::atomic<Policy> policy{Policy::after_grace};
std::atomic<bool> closing{false};
std::atomic<bool> only_stderr{false};
std::atomic<lua_State*> interrupted_state{nullptr};
pthread_t script_thread;
sem_t wake;

struct Incumbent {
  std::timed_mutex mutex;
  std::string text;
  Stream stream = Stream::out;
};
Incumbent& incumbent() {
  // Never destroyed: the watchdog may need it while the program's statics are going away.
  static auto* instance = new Incumbent;
  return *instance;
}

// Stays installed until `reset`, so that a script cannot lose the interrupt in a pcall.
void raise_interrupted(lua_State* L, lua_Debug*) {
  raise(L, "interrupted", "interrupted by Ctrl-C");
}

void on_signal(int signal) {
  const int saved_errno = errno;
  if (!pthread_equal(pthread_self(), script_thread)) {
    pthread_kill(script_thread, signal);  // the hook must be set where Lua runs
    errno = saved_errno;
    return;
  }
  requested.store(true);
  num_signals.fetch_add(1);
  // lua_sethook only sets flags and the dispatch mode; LuaJIT's own program calls it here too.
  lua_State* L = interrupted_state.load();
  if (L != nullptr && policy.load() != Policy::polled) {
    lua_sethook(L, raise_interrupted, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
  }
  sem_post(&wake);
  errno = saved_errno;
}

using Clock = std::chrono::steady_clock;

/// Time past a limit that a script has to come back by itself: it may be between two looks at it.
constexpr auto kSlack = std::chrono::milliseconds(250);
/// No limit is longer than a year, so that its end can be computed.
constexpr double kLongestLimitS = 3.2e7;
/// A script that burns the grace period's CPU time is silent; one that gets no processor, or waits
/// for something, has so many of them.
constexpr int kMostGraces = 20;

struct Limit {
  Clock::time_point end;
  double limit_s = 0;
  std::string who;
  bool raised = false;  ///< Lua was told
  Clock::time_point raised_at{}, next_look{};
  double cpu_s = 0;  ///< of the script's thread when it was told
};
struct Limits {
  std::mutex mutex;
  std::vector<Limit> stack;
};
Limits& limits() {
  static auto* instance = new Limits;  // never destroyed, like the incumbent
  return *instance;
}
std::atomic<bool> limit_raised{false};

// Stays installed until the TimeLimit ends, so that a script cannot lose it in a pcall.
void raise_time_limit(lua_State* L, lua_Debug*) {
  raise(L, kTimeLimitCode, "stopped at its time limit");
}

// Runs on the script's thread, like the TimeLimit, so neither can come in the other's way.
void on_time_limit(int) {
  const int saved_errno = errno;
  lua_State* L = interrupted_state.load();
  if (L != nullptr && limit_raised.load() && !requested.load()) {
    lua_sethook(L, raise_time_limit, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
  }
  errno = saved_errno;
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

// The thread that holds the stream may itself be stuck in a write, so waiting has an end.
void flush_if_possible(std::FILE* stream) {
  for (int i = 0; i < 20; ++i) {
    if (::ftrylockfile(stream) == 0) {
      std::fflush(stream);
      ::funlockfile(stream);
      return;
    }
    ::usleep(10'000);
  }
}

void write_incumbent() {
  Incumbent& best = incumbent();
  const std::unique_lock lock(best.mutex, std::chrono::milliseconds(200));
  if (!lock.owns_lock() || best.text.empty()) return;
  const bool to_stderr = best.stream == Stream::err || only_stderr.load();
  write_all(to_stderr ? STDERR_FILENO : STDOUT_FILENO, best.text);
  if (best.text.back() != '\n') write_all(to_stderr ? STDERR_FILENO : STDOUT_FILENO, "\n");
  best.text.clear();
}

[[noreturn]] void end_process(const std::string& message, int status) {
  flush_if_possible(stdout);
  write_incumbent();
  write_all(STDERR_FILENO, message);
  ::_exit(status);
}

[[noreturn]] void end_by_ctrl_c() { end_process("tessera: interrupted by Ctrl-C\n", 130); }

void wait_for_wake() {
  while (::sem_wait(&wake) != 0 && errno == EINTR) {
  }
}

// When the limit in force needs the watchdog next, if one is.
std::optional<Clock::time_point> next_look() {
  const std::lock_guard lock(limits().mutex);
  if (limits().stack.empty()) return std::nullopt;
  const Limit& limit = limits().stack.back();
  return limit.raised ? limit.next_look : limit.end + kSlack;
}

double script_cpu_s() {
  clockid_t clock{};
  timespec time{};
  if (::pthread_getcpuclockid(script_thread, &clock) != 0 || ::clock_gettime(clock, &time) != 0)
    return std::numeric_limits<double>::infinity();
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void look_at_limit(std::chrono::milliseconds grace) {
  const auto look = next_look();
  const auto now = Clock::now();
  if (!look || now < *look) return;
  const std::lock_guard lock(limits().mutex);
  if (limits().stack.empty()) return;
  Limit& limit = limits().stack.back();
  if (!limit.raised) {
    limit.raised = true;
    limit.raised_at = now;
    limit.next_look = now + grace;
    limit.cpu_s = script_cpu_s();
    limit_raised = true;
    pthread_kill(script_thread, SIGURG);
    return;
  }
  const bool has_run = script_cpu_s() - limit.cpu_s >= std::chrono::duration<double>(grace).count();
  if (!has_run && now - limit.raised_at < kMostGraces * grace) {
    limit.next_look = now + grace / 4;
    return;
  }
  end_process("tessera: " + limit.who + " was still running, silent, past its time limit of " +
                  fmt::format("{:.3g} s", limit.limit_s) +
                  ". A loop that never calls the engine cannot be stopped otherwise: let it look "
                  "at search:expired(), or raise time_limit_s\n",
              1);
}

// Whether something woke the watchdog within `grace`.
bool wait_for_wake(std::chrono::milliseconds grace) {
  timespec deadline{};
  ::clock_gettime(CLOCK_REALTIME, &deadline);
  const auto nanoseconds = deadline.tv_nsec + (grace.count() % 1000) * 1'000'000;
  deadline.tv_sec += grace.count() / 1000 + nanoseconds / 1'000'000'000;
  deadline.tv_nsec = nanoseconds % 1'000'000'000;
  int status;
  while ((status = ::sem_timedwait(&wake, &deadline)) != 0 && errno == EINTR) {
  }
  return status == 0;
}

void watch(std::chrono::milliseconds grace) {
  for (;;) {
    if (const auto look = next_look()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*look - Clock::now());
      if (left.count() > 0) wait_for_wake(left);
    } else {
      wait_for_wake();
    }
    if (!closing) look_at_limit(grace);
    while (!closing && requested && policy != Policy::never) {
      if (num_signals > 1) end_by_ctrl_c();
      if (policy == Policy::second_signal || policy == Policy::polled) {
        wait_for_wake();
      } else if (!wait_for_wake(grace) && requested && policy == Policy::after_grace && !closing) {
        end_by_ctrl_c();
      }
    }
    if (closing) return;
  }
}

// Never destroyed, because a script's os.exit() runs the destructors of statics while it waits.
std::thread& watcher = *new std::thread;
struct sigaction previous_action, previous_urgent;

}  // namespace

const std::atomic<bool>* flag() { return &requested; }

void check_draw(std::int64_t draw) {
  if (draw % 1024 != 0 || !requested.load()) return;
  throw Error(ErrorCode::interrupted, fmt::format("interrupted after {} draws", draw));
}

void set_incumbent_text(std::string_view text, Stream stream) {
  Incumbent& best = incumbent();
  const std::lock_guard lock(best.mutex);
  best.text = printable(text);  // now: what writes it may be in a hurry
  best.stream = stream;
}

void keep_stdout_clean() { only_stderr = true; }

void print_incumbent() {
  std::fflush(stdout);
  write_incumbent();
}

void reset(lua_State* L) {
  lua_sethook(L, nullptr, 0, 0);
  requested = false;
  num_signals = 0;
  if (watcher.joinable()) ::sem_post(&wake);
}

double left_s() {
  const std::lock_guard lock(limits().mutex);
  if (limits().stack.empty()) return std::numeric_limits<double>::infinity();
  const std::chrono::duration<double> left = limits().stack.back().end - Clock::now();
  return std::max(0.0, left.count());
}

TimeLimit::TimeLimit(lua_State* L, double limit_s, std::string_view who) : L_(L) {
  const auto length = std::chrono::duration<double>(std::clamp(limit_s, 0.0, kLongestLimitS));
  Limit limit{Clock::now() + std::chrono::ceil<Clock::duration>(length), limit_s, printable(who)};
  {
    const std::lock_guard lock(limits().mutex);
    auto& stack = limits().stack;
    if (!stack.empty()) limit.end = std::min(limit.end, stack.back().end);
    stack.push_back(std::move(limit));
  }
  if (watcher.joinable()) ::sem_post(&wake);
}

TimeLimit::~TimeLimit() {
  bool raised = false;
  {
    const std::lock_guard lock(limits().mutex);
    raised = limits().stack.back().raised;
    limits().stack.pop_back();
  }
  limit_raised = false;
  if (raised && !requested) lua_sethook(L_, nullptr, 0, 0);
  if (watcher.joinable()) ::sem_post(&wake);
}

Watchdog::Watchdog(lua_State* L, std::chrono::milliseconds grace) {
  if (watcher.joinable()) throw std::logic_error("a second Watchdog");
  closing = false;
  policy = Policy::after_grace;
  script_thread = pthread_self();
  interrupted_state = L;
  if (::sem_init(&wake, 0, 0) != 0) throw std::runtime_error("cannot create a semaphore");
  // The watchdog takes no signals, so that they reach the script's thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  watcher = std::thread(watch, grace);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);

  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: a script that waits for input is interrupted too
  ::sigaction(SIGINT, &action, &previous_action);
  action.sa_handler = on_time_limit;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGURG, &action, &previous_urgent);
  stop_waiting_when(&requested);
}

Watchdog::~Watchdog() {
  stop_waiting_when(nullptr);
  ::sigaction(SIGINT, &previous_action, nullptr);
  ::sigaction(SIGURG, &previous_urgent, nullptr);
  interrupted_state = nullptr;
  closing = true;
  ::sem_post(&wake);
  watcher.join();
  ::sem_destroy(&wake);
}

void Watchdog::set_policy(Policy value) {
  policy = value;
  ::sem_post(&wake);
}

}  // namespace tessera::lua_kit::interrupt
