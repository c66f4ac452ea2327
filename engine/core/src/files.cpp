#include "tessera/core/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>

#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera {
namespace fs = std::filesystem;
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

[[noreturn]] void fail(const char* verb, const std::string& path, int error) {
  const ErrorCode code = error == ENOENT ? ErrorCode::not_found : ErrorCode::io;
  throw Error(code, fmt::format("cannot {} {}: {}", verb, quote(path, 300), std::strerror(error)),
              path);
}

// The system's calls would cut such a path short and touch another file.
void refuse_nul(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the path {} contains a NUL byte", quote(path, 300)), quote(path, 300));
  }
}

// /dev/stdout and its like, wherever they lead: what is written there goes through the stream that
// is open already, at its position.
int standard_stream(const struct stat& info) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat stream {};
    if (::fstat(fd, &stream) == 0 && stream.st_dev == info.st_dev && stream.st_ino == info.st_ino) {
      return fd;
    }
  }
  return -1;
}

void write_all(int fd, const std::string& content, const std::string& path) {
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::write(fd, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write", path, errno);
    done += static_cast<std::size_t>(n);
  }
}

struct ReadLog {
  std::mutex mutex;
  bool kept = false;
  std::vector<std::string> paths;
};
ReadLog& read_log() {
  static auto* log = new ReadLog;  // never destroyed: threads may read until the very end
  return *log;
}

void log_read(const std::string& path) {
  ReadLog& log = read_log();
  const std::lock_guard lock(log.mutex);
  if (!log.kept || std::find(log.paths.begin(), log.paths.end(), path) != log.paths.end()) return;
  log.paths.push_back(path);
}

mode_t mode_of_new_files() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

void replace_file(const std::string& path, const std::string& content, std::optional<mode_t> mode) {
  // A link stays one: what it points at is replaced.
  std::error_code error;
  const std::string target = mode ? fs::canonical(path, error).string() : path;
  if (error) fail("write", path, error.value());
  std::string temporary = target + ".XXXXXX";
  FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) fail("write", path, errno);
  try {
    write_all(file.get(), content, path);
    if (::fchmod(file.get(), mode.value_or(mode_of_new_files())) != 0 || ::fsync(file.get()) != 0) {
      fail("write", path, errno);
    }
    if (::close(file.release()) != 0) fail("write", path, errno);
    if (::rename(temporary.c_str(), target.c_str()) != 0) fail("write", path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace

std::string read_file(const std::string& path, std::uint64_t max_bytes) {
  refuse_nul(path);
  check_may_read(path);
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail("read", path, errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail("read", path, errno);
  if (S_ISDIR(info.st_mode)) fail("read", path, EISDIR);
  const auto too_long = [&](std::uint64_t size) {
    throw Error(ErrorCode::io,
                fmt::format("cannot read {}: {} or more, the limit is {}", quote(path, 300),
                            format_bytes(static_cast<double>(size)),
                            format_bytes(static_cast<double>(max_bytes))),
                path);
  };
  if (S_ISREG(info.st_mode) && static_cast<std::uint64_t>(info.st_size) > max_bytes) {
    too_long(static_cast<std::uint64_t>(info.st_size));
  }
  std::string content;
  char block[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.get(), block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read", path, errno);
    if (n == 0) break;
    content.append(block, static_cast<std::size_t>(n));
    if (content.size() > max_bytes) too_long(content.size());
  }
  if (S_ISREG(info.st_mode)) log_read(path);
  return content;
}

void start_read_log() {
  ReadLog& log = read_log();
  const std::lock_guard lock(log.mutex);
  log.kept = true;
  log.paths.clear();
}

std::vector<std::string> take_read_log() {
  ReadLog& log = read_log();
  const std::lock_guard lock(log.mutex);
  return std::exchange(log.paths, {});
}

void write_file(const std::string& path, const std::string& content) {
  refuse_nul(path);
  check_may_write(path);
  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) fail("write", path, EISDIR);
  if (exists && ::access(path.c_str(), W_OK) != 0) fail("write", path, errno);
  if (const int stream = exists ? standard_stream(info) : -1; stream >= 0) {
    std::fflush(nullptr);
    return write_all(stream, content, path);
  }
  if (exists && !S_ISREG(info.st_mode)) {  // a pipe or a device has nothing to rename
    FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (file.get() < 0) fail("write", path, errno);
    return write_all(file.get(), content, path);
  }
  replace_file(path, content, exists ? std::optional(info.st_mode & 07777) : std::nullopt);
}

Installation find_installation(const std::string& executable_path) {
  std::error_code ignored;
  const fs::path executable = fs::weakly_canonical(executable_path, ignored);
  const fs::path installed = executable.parent_path().parent_path() / "share" / "tessera";
  if (fs::exists(installed / "scripts" / "tessera" / "init.lua", ignored)) {
    return {installed / "scripts", installed / "datasets", installed / "experiments"};
  }
  for (fs::path folder = executable.parent_path(); folder != folder.parent_path();
       folder = folder.parent_path()) {
    if (fs::exists(folder / "scripts" / "tessera" / "init.lua", ignored)) {
      return {folder / "scripts", folder / "datasets", folder / "experiments"};
    }
  }
  throw Error(
      ErrorCode::not_found,
      fmt::format("the Lua library 'scripts/tessera' was found neither in {} nor above {}; "
                  "reinstall, or run the program from its build tree",
                  quote(installed.string(), 300), quote(executable.parent_path().string(), 300)));
}

DataFolders DataFolders::from_environment(const std::string& own) {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("TESSERA_PATH")) {
    std::string_view rest(path);
    while (!rest.empty()) {
      const std::size_t end = rest.find(':');
      const std::string folder(rest.substr(0, end));
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
      if (folder.empty()) continue;
      folders.push_back(folder);
      std::error_code ignored;
      if (fs::is_directory(fs::path(folder) / "datasets", ignored)) {
        folders.push_back((fs::path(folder) / "datasets").string());
      }
    }
  }
  folders.push_back(own);
  return DataFolders(std::move(folders));
}

namespace {

// "RTX 2080 super" as "rtx-2080-super".
std::string normalised(std::string_view name) {
  std::string result(name);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) {
    return c == ' ' || c == '_' ? '-' : static_cast<char>(std::tolower(c));
  });
  return result;
}

}  // namespace

std::string DataFolders::find(const std::string& kind, const std::string& name) const {
  // A name is a name, not a path out of the folder.
  if (name.empty() || name.size() > 128 || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    return "";
  }
  const auto exact = [&](const std::string& file_name) -> std::string {
    for (const std::string& folder : folders_) {
      const fs::path path = fs::path(folder) / kind / (file_name + ".json");
      std::error_code ignored;
      if (fs::is_regular_file(path, ignored)) return path.string();
    }
    return "";
  };
  if (std::string path = exact(name); !path.empty()) return path;
  const std::string wanted = normalised(name);
  for (const std::string& known : list(kind)) {
    if (normalised(known) == wanted) return exact(known);
  }
  return "";
}

std::string DataFolders::require(const std::string& kind, const std::string& name,
                                 const std::string& where) const {
  std::string path = find(kind, name);
  if (!path.empty()) return path;
  std::string noun = kind.substr(0, kind.size() - 1);  // "kernel_sets": "kernel set"
  std::replace(noun.begin(), noun.end(), '_', ' ');
  throw Error(ErrorCode::not_found,
              fmt::format("{}{}unknown {} {}{}", where, where.empty() ? "" : ": ", noun,
                          quote(name), did_you_mean(name, list(kind))),
              where);
}

std::vector<std::string> DataFolders::list(const std::string& kind) const {
  std::vector<std::string> names;
  for (const std::string& folder : folders_) {
    std::error_code error;
    for (fs::directory_iterator it(fs::path(folder) / kind, error), end; !error && it != end;
         it.increment(error)) {
      if (it->path().extension() == ".json") names.push_back(it->path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace tessera
