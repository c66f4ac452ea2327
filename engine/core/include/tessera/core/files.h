#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// Whole content of a file, a pipe (a shell's `<(...)`, a FIFO, /dev/stdin) or a terminal. A pipe
/// is waited for, however long nobody opens it for writing: after 2 s stderr says so, and Ctrl-C
/// ends the wait.
/// @throws Error{not_found} if absent, Error{io} if unreadable, a directory, a socket, or longer
/// than `max_bytes` (the sizes are named), Error{interrupted}
std::string read_file(const std::string& path, std::uint64_t max_bytes = 64ull << 20);

enum class FileKind { none, file, folder, pipe, socket, device };

/// What is there, links followed; `none` also where it may not be read.
FileKind file_kind(const std::string& path);

/// Whoever waits for a pipe stops when this is set. Valid until the next call; nullptr: nothing
/// stops it.
void stop_waiting_when(const std::atomic<bool>* flag);

/// Paths of the regular files that `read_file` has read since `start_read_log` or the last call of
/// this, each once, in order; empty where no log is kept. Any thread may read meanwhile.
std::vector<std::string> take_read_log();
void start_read_log();

/// As OutputFile writes (output.h): readers see the old content or the new, never half. What goes
/// to a standard stream, a pipe or a device is written there.
/// @throws Error{not_found} without a folder for it, Error{io} for all else, naming the path and
/// the system's reason.
void write_file(const std::string& path, const std::string& content);

/// Where the product's own `scripts/` and `datasets/` are: beside the executable in an install
/// prefix
/// (`<prefix>/share/tessera`) or the source tree of a development build.
struct Installation {
  std::string scripts_dir;
  std::string datasets_dir;
  std::string experiments_dir;
};
Installation find_installation(const std::string& executable_path);

/// Finds named data files: `<folder>/<kind>/<name>.json` for each folder in order; the user's
/// folders come first.
class DataFolders {
 public:
  explicit DataFolders(std::vector<std::string> folders) : folders_(std::move(folders)) {}

  /// Folders of TESSERA_PATH (separated by ':'), each with its `datasets` subfolder where it has
  /// one, then `own`.
  static DataFolders from_environment(const std::string& own);

  /// Path of the first match, or "" when there is none. Where no file has exactly this name, case
  /// does not matter and spaces and underscores count as hyphens.
  std::string find(const std::string& kind, const std::string& name) const;

  /// The same. @throws Error{not_found}: "ts.model: unknown model 'opt-3b'; did you mean ...",
  /// where `where` is the option that names it.
  std::string require(const std::string& kind, const std::string& name,
                      const std::string& where = {}) const;

  /// Names (without .json) of all files of a kind, sorted, each once.
  std::vector<std::string> list(const std::string& kind) const;

  const std::vector<std::string>& folders() const { return folders_; }

 private:
  std::vector<std::string> folders_;
};

}  // namespace tessera
