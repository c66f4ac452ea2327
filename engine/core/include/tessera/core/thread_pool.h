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

namespace tessera {

/// Threads that the machine runs at the same time, at least 1.
std::size_t hardware_threads();

/// Threads that share out numbered tasks. Which thread runs a task is left to chance, so a task's
/// result must not depend on it. One run() at a time; a pool does not survive fork().
class ThreadPool {
 public:
  /// Called with the number of the thread, below size(), and of the task.
  using Task = std::function<void(std::size_t thread, std::size_t task)>;

  /// @param num_threads including the caller's; 0: hardware_threads()
  /// @param alone for so long the caller works alone: for work that may be over before threads help
  explicit ThreadPool(std::size_t num_threads, std::chrono::milliseconds alone = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::size_t size() const { return num_threads_; }

  /// Runs tasks 0 ... num_tasks-1 and waits for all of them. Rethrows what the first of those that
  /// threw has thrown. Works with fewer threads where the system gives no more.
  void run(std::size_t num_tasks, const Task& task);

 private:
  using Clock = std::chrono::steady_clock;

  void start_threads(std::size_t most);
  void serve(std::size_t thread, std::uint64_t seen);
  void take_tasks(std::size_t thread);

  std::size_t num_threads_;
  Clock::time_point alone_until_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  const Task* task_ = nullptr;
  std::size_t num_tasks_ = 0, next_ = 0, busy_ = 0;
  std::uint64_t round_ = 0;
  bool ending_ = false;
  std::size_t thrown_by_ = 0;  ///< task
  std::exception_ptr thrown_;
};

}  // namespace tessera
