#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace tessera::http {

/// A thread beside the engine's, for what takes long with texts: JSON, templates, tokens.
class TextWorker {
 public:
  TextWorker() : thread_([this] { run(); }) {}
  ~TextWorker() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    came_.notify_one();
    thread_.join();
  }
  TextWorker(const TextWorker&) = delete;
  TextWorker& operator=(const TextWorker&) = delete;

  /// @param job throws nothing
  void push(std::function<void()> job) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    came_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      came_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
      if (ends_) return;
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::function<void()>> jobs_;
  bool ends_ = false;
  std::thread thread_;  // last: it uses all of these
};

}  // namespace tessera::http
