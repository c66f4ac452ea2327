#pragma once

#include <cstddef>

namespace tessera::app {

/// What a standard stream is, for whoever lays out text.
struct Terminal {
  bool is_terminal = false;
  int columns = 80;            ///< of the terminal; COLUMNS where set; 80 where neither is known
  bool knows_columns = false;  ///< what `columns` says is known
  /// Characters that a line may have; 0: any number, as nothing is known.
  std::size_t width() const { return knows_columns ? static_cast<std::size_t>(columns) : 0; }
  bool redraws = false;  ///< a terminal on which a line can be drawn anew; TERM=dumb cannot
  bool utf8 = true;      ///< unless LC_ALL, LC_CTYPE or LANG names a locale that is not in UTF-8
  bool colour = false;   ///< a terminal that shows colours, and NO_COLOR is not set
};
/// @param fd STDOUT_FILENO or STDERR_FILENO
Terminal terminal_facts(int fd);

}  // namespace tessera::app
