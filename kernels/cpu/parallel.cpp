#include "tessera/kernels/parallel.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace tessera::kernels {
namespace {

using Slice = std::function<void(std::int64_t, std::int64_t)>;

/// One call of for_slices.
struct Job {
  const Slice* f;
  std::int64_t count, grain;
  std::atomic<std::int64_t> next{0};

  void work() {
    for (;;) {
      const std::int64_t first = next.fetch_add(grain, std::memory_order_relaxed);
      if (first >= count) return;
      (*f)(first, count - first < grain ? count : first + grain);
    }
  }
};

/// Threads that wait for a job: awake for a while, since decoding has one every few microseconds,
/// then asleep.
class Pool {
 public:
  /// Runs the job on the caller and `helpers` threads.
  void run(Job& job, int helpers) {
    while (num_threads_ < helpers && add_thread()) {
    }
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      helpers_ = helpers;
      busy_.store(num_threads_, std::memory_order_relaxed);
      ticket_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    job.work();
    while (busy_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  }

 private:
  static constexpr int kSpins = 20000;  // about 50 us

  /// False where the system gives no more threads: the job is then done by fewer.
  bool add_thread() {
    try {
      const std::uint64_t seen = ticket_;
      std::thread([this, index = num_threads_, seen] { serve(index, seen); }).detach();
    } catch (const std::system_error&) {
      return false;
    }
    ++num_threads_;
    return true;
  }

  void serve(int index, std::uint64_t seen) {
    for (;;) {
      for (int i = 0; i < kSpins && ticket_.load(std::memory_order_acquire) == seen; ++i) pause();
      if (ticket_.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return ticket_.load(std::memory_order_acquire) != seen; });
      }
      seen = ticket_.load(std::memory_order_acquire);
      if (index < helpers_) job_->work();
      busy_.fetch_sub(1, std::memory_order_release);
    }
  }

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<std::uint64_t> ticket_{0};
  std::atomic<int> busy_{0};  // threads that have not finished with the ticket
  Job* job_ = nullptr;
  int helpers_ = 0, num_threads_ = 0;
};

std::atomic_flag in_use = ATOMIC_FLAG_INIT;
pid_t owner = 0;
Pool* pool = nullptr;

/// The threads of a pool do not survive fork(): the child makes its own. Pools are never destroyed,
/// since their threads wait in them until the process ends.
Pool& pool_of_this_process() {
  if (owner != ::getpid()) {
    pool = new Pool;
    owner = ::getpid();
  }
  return *pool;
}

}  // namespace

void for_slices(int num_threads, std::int64_t count, std::int64_t grain, const Slice& f) {
  if (count <= 0 || grain <= 0 || num_threads <= 0) return;
  if (grain > count) grain = count;
  Job job{&f, count, grain};
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
  const unsigned threads = std::thread::hardware_concurrency();
  return threads > 0 ? static_cast<int>(threads) : 1;
}

}  // namespace tessera::kernels
