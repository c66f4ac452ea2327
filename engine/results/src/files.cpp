#include "files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::results {
namespace fs = std::filesystem;
namespace {

std::string shown(const std::string& path) { return quote(path, 300); }

std::optional<struct stat> entry_at(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return std::nullopt;
  return info;
}

// In folders without links. A file that does not exist yet is where it would be made.
std::string resolved(const std::string& path, bool follow) {
  const fs::path given(path);
  std::error_code error;
  if (follow) {
    const fs::path whole = fs::canonical(given, error);
    if (!error) return whole.string();
  }
  const fs::path folder = fs::canonical(given.has_parent_path() ? given.parent_path() : ".", error);
  return error ? path : (folder / given.filename()).string();
}

// What is written goes into this one file and no other.
void check_may_be_filled(const std::string& path, const struct stat& info) {
  if (S_ISLNK(info.st_mode)) {
    std::error_code ignored;
    const fs::path target = fs::read_symlink(path, ignored);
    refuse_file(
        ErrorCode::io, path,
        fmt::format("is a link to {}; what is stored goes into no other file than the one that is "
                    "named: give that one",
                    shown(target.string())));
  }
  if (info.st_nlink > 1) {
    refuse_file(
        ErrorCode::io, path,
        fmt::format("has {} names (hard links), and writing would change what lies under all of "
                    "them; copy it and give the copy",
                    info.st_nlink));
  }
  if (::access(path.c_str(), W_OK) != 0) {
    refuse_file(ErrorCode::io, path, fmt::format("cannot be written: {}", std::strerror(errno)));
  }
}

void check_existing(const std::string& path, const OpenOptions& options) {
  struct stat info {};
  const bool found = ::stat(path.c_str(), &info) == 0;
  if (found && S_ISDIR(info.st_mode)) {
    refuse_file(ErrorCode::io, path,
                "is a folder; give the path of a file, such as results.db in it");
  }
  if (found && !S_ISREG(info.st_mode)) refuse_file(ErrorCode::io, path, "is no regular file");
  const auto entry = entry_at(path);
  if (!options.read_only && entry) check_may_be_filled(path, *entry);
  if (found && ::access(path.c_str(), R_OK) != 0) {
    refuse_file(ErrorCode::io, path, fmt::format("cannot be read: {}", std::strerror(errno)));
  }
  if (!found && (options.read_only || !options.create)) {
    refuse_file(
        ErrorCode::not_found, path,
        "does not exist; `tessera run EXPERIMENT.lua --results FILE` makes one, and --results "
        "FILE names another");
  }
}

// One of SQLite's own files, FILE-wal or FILE-shm.
std::optional<std::string> problem_of_log(const std::string& path, const std::string& file) {
  const auto info = entry_at(path);
  if (!info) return std::nullopt;
  const auto owner = entry_at(file);
  const char* what = nullptr;
  if (S_ISLNK(info->st_mode)) {
    what = "is a link";
  } else if (!S_ISREG(info->st_mode)) {
    what = "is no regular file";
  } else if (info->st_nlink > 1) {
    what = "has other names (hard links)";
  } else if (info->st_uid != ::geteuid() && (!owner || info->st_uid != owner->st_uid)) {
    what = "belongs to another user";
  } else {
    return std::nullopt;
  }
  return fmt::format(
      "{} beside it {}, and SQLite would write its log there; a program that ended well leaves no "
      "such file: remove it",
      shown(path), what);
}

// ---- SQLite's view of the file system ----

sqlite3_vfs* system_files() {
  static sqlite3_vfs* const found = sqlite3_vfs_find(nullptr);
  return found;
}

std::string without(std::string_view suffix, const char* name) {
  const std::string_view text(name);
  return std::string(text.substr(0, text.size() - suffix.size()));
}

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;
  constexpr int kNever = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL;
  if ((flags & kNever) != 0) return SQLITE_CANTOPEN;
  const bool is_log = (flags & SQLITE_OPEN_WAL) != 0;
  const bool is_main = (flags & SQLITE_OPEN_MAIN_DB) != 0 && name != nullptr;
  if ((is_main || is_log) && problem_beside(is_log ? without("-wal", name) : name)) {
    return SQLITE_CANTOPEN;
  }
  return system_files()->xOpen(system_files(), name, file, flags, out_flags);
}

int remove_file(sqlite3_vfs*, const char* name, int sync_folder) {
  if (!std::string_view(name).ends_with("-wal")) return SQLITE_IOERR_DELETE;
  return system_files()->xDelete(system_files(), name, sync_folder);
}

int look_for_file(sqlite3_vfs*, const char* name, int flags, int* found) {
  const int code = system_files()->xAccess(system_files(), name, flags, found);
  if (code == SQLITE_OK && *found != 0 && std::string_view(name).ends_with("-journal")) {
    return SQLITE_CANTOPEN;  // it was put there after check_file
  }
  return code;
}

}  // namespace

void refuse_file(ErrorCode code, const std::string& path, const std::string& problem) {
  throw Error(code, fmt::format("results file {}: {}", shown(path), problem), path);
}

std::optional<std::string> problem_beside(const std::string& file) {
  const std::string journal = file + "-journal";
  if (entry_at(journal)) {
    return fmt::format(
        "{} lies beside it. Tessera leaves no such file, and SQLite would play it back: change "
        "this file, and remove others that it names. Remove it. Only where you know that it is "
        "yours, after other programs wrote to this file, open the file with one of them first",
        shown(journal));
  }
  if (auto problem = problem_of_log(file + "-wal", file)) return problem;
  return problem_of_log(file + "-shm", file);
}

std::string check_file(const std::string& path, const OpenOptions& options) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is no path of a results file", shown(path)), quote(path));
  }
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : ".";
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    refuse_file(ErrorCode::not_found, path,
                fmt::format("the folder {} does not exist; make it first", shown(folder.string())));
  }
  check_existing(path, options);
  if (!options.read_only && ::access(folder.c_str(), W_OK | X_OK) != 0) {
    refuse_file(
        ErrorCode::io, path,
        fmt::format("its folder cannot be written, which SQLite needs for its log: {}; copy the "
                    "file elsewhere or write to another one",
                    std::strerror(errno)));
  }
  const std::string file = resolved(path, options.read_only);
  if (const auto problem = problem_beside(file)) refuse_file(ErrorCode::io, path, *problem);
  return file;
}

const char* guarded_files() {
  static sqlite3_vfs files = [] {
    sqlite3_vfs copy = *system_files();
    copy.zName = "tessera";
    copy.pNext = nullptr;
    copy.xOpen = open_file;
    copy.xDelete = remove_file;
    copy.xAccess = look_for_file;
    return copy;
  }();
  static const int registered = sqlite3_vfs_register(&files, 0);
  return registered == SQLITE_OK ? files.zName : nullptr;
}

}  // namespace tessera::results
