#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::run {

/// Workers as processes of this machine. Each is the leader of a process group of its own, so that
/// Ctrl-C on the terminal reaches the master alone, and ends with the master.
class LocalWorkers {
 public:
  struct Options {
    std::string program;         ///< tessera itself
    std::string address;         ///< of the master: "127.0.0.1:40001"
    std::string secret;          ///< which they find in their environment
    std::int64_t num_ranks = 0;  ///< of all
  };
  explicit LocalWorkers(Options options);
  ~LocalWorkers();  ///< ends those that are there
  LocalWorkers(const LocalWorkers&) = delete;
  LocalWorkers& operator=(const LocalWorkers&) = delete;

  /// @throws Error{io} where no process can be started; an older one of this rank is ended first
  void start(std::int32_t rank);
  /// "ended by signal 9 (Killed)", "ended with status 3"; empty where it has not ended within half
  /// a second, or was not started here.
  std::string ending(std::int32_t rank);
  /// The same of one that was there when it was asked before and is gone now; empty otherwise.
  std::string ended(std::int32_t rank);
  /// Lets them end by themselves for so long, then ends them.
  void stop(double grace_s);

 private:
  bool wait_for(std::int32_t rank, double most_s);
  Options options_;
  std::vector<pid_t> processes_;      ///< [ranks]; 0: none
  std::vector<std::string> endings_;  ///< [ranks]
};

}  // namespace tessera::run
