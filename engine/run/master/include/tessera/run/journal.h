#pragma once

#include <cstddef>
#include <string>

#include "tessera/run/prompts.h"

namespace tessera::run {

/// Answers on disk, a line of JSON each: what is in it is never asked again. Its first line says of
/// which run it is.
class Journal {
 public:
  /// Opens it, or begins it; answers that it has are put into `answers`. A last line that is cut
  /// short, as the process or the machine ended, is dropped.
  /// @param digest of all that the answers depend on
  /// @throws Error{io}; Error{invalid_argument} for the journal of another run, and for lines that
  /// are none, by number
  Journal(const std::string& path, const std::string& digest, Answers& answers);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// On disk when it returns. @throws Error{io}
  void add(std::size_t prompt, const Answer& answer);

 private:
  void write(const std::string& line);
  std::string path_;
  int file_ = -1;
};

}  // namespace tessera::run
