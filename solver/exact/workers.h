#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera::solver::exact {

/// Boxes of one round of a search. Fixed, for it decides what is looked at.
inline constexpr std::size_t kRound = 8;

/// Threads that share out numbered tasks. Which thread runs a task is left to chance, so a task's
/// result must not depend on it. The caller works alone at first: a search of a few milliseconds
/// would wait for its threads longer than they help.
class Workers {
 public:
  /// @param threads including the caller's.
  explicit Workers(std::size_t threads) : num_threads_(threads) {}
  ~Workers() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  std::size_t size() const { return num_threads_; }

  /// Calls work(worker, task) for tasks 0 ... num_tasks-1 and waits. Rethrows the exception of the
  /// first task that threw one.
  void run(std::size_t num_tasks, const std::function<void(std::size_t, std::size_t)>& work) {
    if (threads_.size() + 1 < num_threads_ && Clock::now() - created_ > kAlone) start();
    {
      const std::lock_guard lock(mutex_);
      work_ = &work;
      num_tasks_ = num_tasks;
      next_ = 0;
      errors_.assign(num_tasks, nullptr);
      busy_ = threads_.size();
      ++round_;
    }
    if (!threads_.empty()) wake_.notify_all();
    take_tasks(0);
    {
      std::unique_lock lock(mutex_);
      idle_.wait(lock, [this] { return busy_ == 0; });
    }
    for (const std::exception_ptr& error : errors_) {
      if (error) std::rethrow_exception(error);
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kAlone{10};

  void start() {
    for (std::size_t i = 1; i < num_threads_; ++i) {
      threads_.emplace_back([this, i, round = round_] { serve(i, round); });
    }
  }

  void serve(std::size_t worker, std::uint64_t seen) {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return ending_ || round_ != seen; });
        if (ending_) return;
        seen = round_;
      }
      take_tasks(worker);
      const std::lock_guard lock(mutex_);
      if (--busy_ == 0) idle_.notify_one();
    }
  }

  void take_tasks(std::size_t worker) {
    for (;;) {
      std::size_t task;
      {
        const std::lock_guard lock(mutex_);
        if (next_ == num_tasks_) return;
        task = next_++;
      }
      try {
        (*work_)(worker, task);
      } catch (...) {
        errors_[task] = std::current_exception();
      }
    }
  }

  std::size_t num_threads_;
  Clock::time_point created_ = Clock::now();
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  const std::function<void(std::size_t, std::size_t)>* work_ = nullptr;
  std::size_t num_tasks_ = 0, next_ = 0, busy_ = 0;
  std::uint64_t round_ = 0;
  bool ending_ = false;
  std::vector<std::exception_ptr> errors_;
};

}  // namespace tessera::solver::exact
