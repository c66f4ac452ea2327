#include "tessera/kernels/parallel.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace tessera::kernels {
namespace {

/// One call of for_slices.
struct Job {
  SliceCall slice;
  std::int64_t count, grain;
  std::atomic<std::int64_t> next{0};

  void work() {
    for (;;) {
      const std::int64_t first = next.fetch_add(grain, std::memory_order_relaxed);
      if (first >= count) return;
      slice.call(slice.f, first, count - first < grain ? count : first + grain);
    }
  }
};

/// What the threads of a pool agree on, in one word: the number of the job, whether it can still be
/// joined, how many may join, how many are at it.
struct State {
  static constexpr std::uint64_t kTicket = std::uint64_t{1} << 32, kOpen = std::uint64_t{1} << 31;
  static constexpr std::uint64_t kSeat = std::uint64_t{1} << 16, kAtWork = kSeat - 1;
  static constexpr int kMaxSeats = 0x7fff;

  static std::uint64_t ticket(std::uint64_t state) { return state / kTicket; }
  static int seats(std::uint64_t state) { return static_cast<int>(state / kSeat & 0x7fff); }
};

/// Threads that wait for a job: awake for a while, since decoding has one every few microseconds,
/// then asleep. A thread joins a job while that is open; the caller closes it when no slice is left
/// and waits for those that have joined, so that a thread which the system does not run, or which
/// has to be woken first, delays nobody.
class Pool {
 public:
  /// Runs the job on the caller and up to `helpers` threads.
  void run(Job& job, int helpers) {
    if (helpers > State::kMaxSeats) helpers = State::kMaxSeats;
    while (num_threads_ < helpers && add_thread()) {
    }
    job_ = &job;
    const std::uint64_t ticket = State::ticket(state_.load(std::memory_order_relaxed)) + 1;
    state_.store(ticket * State::kTicket | State::kOpen |
                 static_cast<std::uint64_t>(helpers) * State::kSeat);
    if (num_asleep_.load() > 0) {
      { const std::lock_guard lock(mutex_); }  // who has counted itself is now waiting
      wake_.notify_all();
    }
    job.work();
    state_.fetch_and(~State::kOpen, std::memory_order_acq_rel);
    for (int i = 0; (state_.load(std::memory_order_acquire) & State::kAtWork) != 0; ++i) {
      if (i < kSpinsToEnd) {
        pause();
      } else {
        std::this_thread::yield();
      }
    }
  }

 private:
  static constexpr int kSpinsToEnd = 2000;
  static constexpr int kSpins = 20000;  // about 50 us

  /// False where the system gives no more threads: the job is then done by fewer.
  bool add_thread() {
    try {
      const std::uint64_t seen = State::ticket(state_.load(std::memory_order_relaxed));
      std::thread([this, index = num_threads_, seen] { serve(index, seen); }).detach();
    } catch (const std::system_error&) {
      return false;
    }
    ++num_threads_;
    return true;
  }

  void serve(int index, std::uint64_t seen) {
    for (;;) {
      for (int i = 0; i < kSpins && State::ticket(state_.load(std::memory_order_relaxed)) == seen;
           ++i) {
        pause();
      }
      std::uint64_t state = state_.load(std::memory_order_acquire);
      if (State::ticket(state) == seen) state = sleep(seen);
      seen = State::ticket(state);
      if (!join(index, seen, state)) continue;
      job_->work();
      state_.fetch_sub(1, std::memory_order_release);
    }
  }

  /// Until there is another job than `seen`. A caller either sees that this thread sleeps or has
  /// put its job where this thread looks after saying so.
  std::uint64_t sleep(std::uint64_t seen) {
    std::unique_lock lock(mutex_);
    num_asleep_.fetch_add(1);
    wake_.wait(lock, [&] { return State::ticket(state_.load()) != seen; });
    num_asleep_.fetch_sub(1);
    return state_.load();
  }

  /// False where the job is closed, is another one by now, or has no seat for this thread.
  bool join(int index, std::uint64_t ticket, std::uint64_t state) {
    while (State::ticket(state) == ticket && (state & State::kOpen) != 0 &&
           index < State::seats(state)) {
      if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) return true;
    }
    return false;
  }

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  std::mutex mutex_;  // of those asleep
  std::condition_variable wake_;
  std::atomic<int> num_asleep_{0};
  alignas(64) std::atomic<std::uint64_t> state_{0};
  Job* job_ = nullptr;  // of who has joined it
  int num_threads_ = 0;
};

std::atomic_flag in_use = ATOMIC_FLAG_INIT;
Pool* pool = nullptr;

/// The threads of a pool do not survive fork(): the child makes its own. Pools are never destroyed,
/// since their threads wait in them until the process ends.
Pool& pool_of_this_process() {
  [[maybe_unused]] static const int forks =
      ::pthread_atfork(nullptr, nullptr, [] { pool = nullptr; });
  if (pool == nullptr) pool = new Pool;
  return *pool;
}

}  // namespace

void call_slices(int num_threads, std::int64_t count, std::int64_t grain, SliceCall slice) {
  if (count <= 0 || grain <= 0 || num_threads <= 0) return;
  if (grain > count) grain = count;
  Job job{slice, count, grain};
  const std::int64_t slices = count / grain + (count % grain != 0 ? 1 : 0);
  const int helpers = static_cast<int>(slices < num_threads ? slices : num_threads) - 1;
  if (helpers == 0 || in_use.test_and_set(std::memory_order_acquire)) {
    job.work();
    return;
  }
  pool_of_this_process().run(job, helpers);
  in_use.clear(std::memory_order_release);
}

int hardware_threads() {
  // Once: it is read from a file, which takes longer than a small product.
  static const unsigned threads = std::thread::hardware_concurrency();
  return threads > 0 ? static_cast<int>(threads) : 1;
}

}  // namespace tessera::kernels
