#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace tessera::workers {

/// A program that is to run as a process of its own. Its stdin is empty, no signal is blocked, and
/// it leads a process group, so that Ctrl-C on the terminal does not reach it.
struct Launch {
  struct Descriptor {
    int number = 0;  ///< that it finds
    int from = -1;   ///< of ours; -1: /dev/null
  };
  std::vector<std::string> command;  ///< the program's path, and its arguments
  std::vector<Descriptor> descriptors = {};
  std::vector<std::string> variables = {};  ///< "NAME=value", in place of those of our environment
};

/// @return 0, or the system's reason
int start_process(const Launch& launch, pid_t& process);

}  // namespace tessera::workers
