#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "frame.h"
#include "tessera/workers/pool.h"

namespace tessera::workers {

/// How a process ended.
struct Ending {
  int signal = 0;     ///< that ended it; 0: it exited
  int exit_code = 0;  ///< where it exited
  double peak_bytes = 0;
};

/// One worker process: its start, the line to it, its output, its end.
class Process {
 public:
  /// @throws Error{io} with the system's reason.
  explicit Process(const PoolSettings& settings);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int socket() const { return socket_; }
  int log() const { return log_; }
  bool has_output() const { return written_ < out_.size(); }

  void send(std::uint64_t id, const std::string& text);
  /// Writes what the line takes now.
  void flush();
  /// Reads what has come. False once the line is closed, or carries what no worker sends.
  bool receive(std::vector<Frame>& frames);
  bool is_broken() const { return broken_; }  ///< something else than messages came
  /// Reads what was printed since, and keeps its tail.
  void read_log();
  /// What was printed up to the end of item `id`.
  std::string log_of(std::uint64_t id);
  /// What was printed since the last item's end.
  std::string rest_of_log();
  void kill();
  /// Waits for the end of a process whose line is closed, which is not long, and tidies up.
  Ending end();

 private:
  bool split_frames(std::vector<Frame>& frames);
  void split_log();

  pid_t pid_ = -1;
  int socket_ = -1, log_ = -1;
  std::string out_, in_, printed_;
  std::size_t written_ = 0;
  bool broken_ = false;
  std::deque<std::pair<std::uint64_t, std::string>> logs_;  ///< of items that ended
};

}  // namespace tessera::workers
