#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// Whole content of a regular file.
/// @throws Error{not_found} if absent, Error{io} if unreadable, a directory, or longer than
/// `max_bytes` (the sizes are named).
std::string read_file(const std::string& path, std::uint64_t max_bytes = 64ull << 20);

/// Paths of the regular files that `read_file` has read since `start_read_log` or the last call of
/// this, each once, in order; empty where no log is kept. Any thread may read meanwhile.
std::vector<std::string> take_read_log();
void start_read_log();

/// Writes to a temporary file beside `path`, flushes and renames: readers see the old content or
/// the new, never half.
/// @throws Error{io} naming the path and the system's reason.
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
