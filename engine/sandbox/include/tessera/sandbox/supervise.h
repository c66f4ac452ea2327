#pragma once

#include <functional>

namespace tessera::sandbox {

struct Limits {
  double time_limit_s = 30;                    ///< by the wall
  double memory_bytes = 1024.0 * 1024 * 1024;  ///< of the script's data
  double printed_bytes = 256.0 * 1024 * 1024;  ///< to stdout and to stderr, each
};

/// What a process needs besides its script's data: the program, stacks and arenas of its threads.
double own_memory_bytes();

/// Runs `work` in a new process and returns its exit status, or 1 after saying on stderr which
/// limit it passed or of which signal it died. The new process is in a group of its own, dies with
/// this one, and reads no terminal. What it prints passes through this process in small blocks;
/// control characters do not reach a terminal. The first Ctrl-C is passed on, 130 is the status
/// then; a process that is still there 2 s later is killed. Call it while this process has one
/// thread.
/// @throws Error{io} where no process can be started
int supervise(const Limits& limits, const std::function<int()>& work);

}  // namespace tessera::sandbox
