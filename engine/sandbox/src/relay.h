#pragma once

#include <atomic>
#include <string>
#include <thread>

namespace tessera::sandbox {

/// Passes on what a process prints: from a pipe of its own to one of our streams.
class Relay {
 public:
  /// @param to stdout or stderr of this process
  explicit Relay(int to);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// In the new process: the pipe becomes its stream.
  void connect() const;
  /// In this process, once the other one exists.
  void start();
  /// Once the other one has ended: passes on what is still in the pipe.
  void finish();

  double passed_bytes() const { return passed_bytes_.load(); }

 private:
  void pass_on();

  int to_, read_end_ = -1, write_end_ = -1;
  std::thread thread_;
  std::atomic<bool> ended_{false};
  std::atomic<double> passed_bytes_{0};
};

}  // namespace tessera::sandbox
