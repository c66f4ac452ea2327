#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tessera::app {

/// What a program said before it ended.
struct ProgramResult {
  int status = 0;  ///< exit status, or 128 + signal
  std::string out, err;
};

/// Runs `words[0]` from PATH with the other words as arguments, without a shell, with `input` as
/// its stdin.
/// @throws Error{not_found} when there is no such program; Error{io} when it cannot be started or
/// says more than `max_bytes`.
ProgramResult run_program(const std::vector<std::string>& words, const std::string& input,
                          std::size_t max_bytes = std::size_t{256} << 20);

}  // namespace tessera::app
