#include "tessera/lua_kit/interrupt.h"

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <thread>

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
  if (lua_State* L = interrupted_state.load()) {
    lua_sethook(L, raise_interrupted, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
  }
  sem_post(&wake);
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

[[noreturn]] void end_process() {
  flush_if_possible(stdout);
  write_incumbent();
  write_all(STDERR_FILENO, "tessera: interrupted by Ctrl-C\n");
  ::_exit(130);
}

void wait_for_wake() {
  while (::sem_wait(&wake) != 0 && errno == EINTR) {
  }
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
    wait_for_wake();
    while (!closing && requested && policy != Policy::never) {
      if (num_signals > 1) end_process();
      if (policy == Policy::second_signal) {
        wait_for_wake();
      } else if (!wait_for_wake(grace) && requested && policy == Policy::after_grace && !closing) {
        end_process();
      }
    }
    if (closing) return;
  }
}

// Never destroyed, because a script's os.exit() runs the destructors of statics while it waits.
std::thread& watcher = *new std::thread;
struct sigaction previous_action;

}  // namespace

const std::atomic<bool>* flag() { return &requested; }

void set_incumbent_text(std::string text, Stream stream) {
  Incumbent& best = incumbent();
  const std::lock_guard lock(best.mutex);
  best.text = std::move(text);
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
}

Watchdog::~Watchdog() {
  ::sigaction(SIGINT, &previous_action, nullptr);
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
