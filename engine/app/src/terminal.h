#pragma once

namespace tessera::app {

/// What a standard stream is, for whoever lays out text.
struct Terminal {
  bool is_terminal = false;
  int columns = 80;      ///< of the terminal; COLUMNS where set; 80 where neither is known
  int limit = 0;         ///< the same, but 0 where neither is known: a file takes any width
  bool redraws = false;  ///< a terminal on which a line can be drawn anew; TERM=dumb cannot
  bool colour = false;   ///< a terminal that shows colours, and NO_COLOR is not set
};
/// @param fd STDOUT_FILENO or STDERR_FILENO
Terminal terminal_facts(int fd);

}  // namespace tessera::app
