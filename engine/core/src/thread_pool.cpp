#include "tessera/core/thread_pool.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace tessera {

std::size_t hardware_threads() { return std::max(1u, std::thread::hardware_concurrency()); }

ThreadPool::ThreadPool(std::size_t num_threads, std::chrono::milliseconds alone)
    : num_threads_(num_threads > 0 ? num_threads : hardware_threads()),
      alone_until_(Clock::now() + alone) {}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(std::size_t num_tasks, const Task& task) {
  start_threads(std::min(num_threads_, num_tasks));
  {
    const std::lock_guard lock(mutex_);
    task_ = &task;
    num_tasks_ = num_tasks;
    next_ = 0;
    busy_ = threads_.size();
    ++round_;
  }
  if (!threads_.empty()) wake_.notify_all();
  take_tasks(0);
  {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return busy_ == 0; });
  }
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

/// Has `most` threads at least, the caller's among them.
void ThreadPool::start_threads(std::size_t most) {
  if (threads_.size() + 1 >= most || Clock::now() < alone_until_) return;
  try {
    while (threads_.size() + 1 < most) {
      threads_.emplace_back(
          [this, thread = threads_.size() + 1, seen = round_] { serve(thread, seen); });
    }
  } catch (const std::system_error&) {  // the process or the machine has all it may have
    num_threads_ = threads_.size() + 1;
  }
}

void ThreadPool::serve(std::size_t thread, std::uint64_t seen) {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return ending_ || round_ != seen; });
      if (ending_) return;
      seen = round_;
    }
    take_tasks(thread);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) idle_.notify_one();
  }
}

void ThreadPool::take_tasks(std::size_t thread) {
  for (;;) {
    std::size_t task;
    {
      const std::lock_guard lock(mutex_);
      if (next_ == num_tasks_) return;
      task = next_++;
    }
    try {
      (*task_)(thread, task);
    } catch (...) {  // nothing may leave a thread; the caller gets it
      const std::lock_guard lock(mutex_);
      if (!thrown_ || task < thrown_by_) {
        thrown_by_ = task;
        thrown_ = std::current_exception();
      }
    }
  }
}

}  // namespace tessera
