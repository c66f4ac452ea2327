#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <mutex>

#include "descriptor.h"
#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/terminal_text.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera {
namespace {

using detail::Descriptor;
using detail::fail_file;

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

// A pipe that nobody has opened for writing would hold up the call itself, and Ctrl-C with it.
int open_to_read(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd >= 0) return fd;
  const int error = errno;
  if (file_kind(path) == FileKind::socket) fail_file("read", path, "it is a socket");
  fail_file("read", path, error);
}

[[noreturn]] void refuse_length(const std::string& path, std::uint64_t size,
                                std::uint64_t max_bytes) {
  fail_file("read", path,
            fmt::format("{} or more, the limit is {}", format_bytes(static_cast<double>(size)),
                        format_bytes(static_cast<double>(max_bytes))));
}

}  // namespace

std::string read_file(const std::string& path, std::uint64_t max_bytes) {
  detail::refuse_nul(path);
  check_may_read(path);
  const Descriptor file(open_to_read(path));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail_file("read", path, errno);
  if (S_ISDIR(info.st_mode)) fail_file("read", path, EISDIR);
  if (S_ISREG(info.st_mode) && static_cast<std::uint64_t>(info.st_size) > max_bytes) {
    refuse_length(path, static_cast<std::uint64_t>(info.st_size), max_bytes);
  }
  const bool is_pipe = S_ISFIFO(info.st_mode);
  detail::Waiting waiting(
      path, is_pipe ? "it is a pipe that holds nothing to read" : "it holds nothing to read yet");
  if (::isatty(file.get()) == 1) {
    write_text(stderr, fmt::format("tessera: {} is the terminal: type the text, then Ctrl-D\n",
                                   quote(path, 300)));
  }
  // To read(), a pipe that nobody has opened yet is one that has ended.
  if (is_pipe) waiting.until(file.get(), POLLIN);
  std::string content;
  char block[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.get(), block, sizeof block);
    if (n == 0) break;
    if (n > 0) content.append(block, static_cast<std::size_t>(n));
    if (content.size() > max_bytes) refuse_length(path, content.size(), max_bytes);
    if (n > 0 || errno == EINTR) continue;
    if (errno != EAGAIN) fail_file("read", path, errno);
    waiting.until(file.get(), POLLIN);
  }
  if (S_ISREG(info.st_mode)) log_read(path);
  return content;
}

FileKind file_kind(const std::string& path) {
  try {
    check_may_read(path);
  } catch (const Error&) {
    return FileKind::none;
  }
  if (::access(path.c_str(), R_OK) != 0) return FileKind::none;
  std::error_code ignored;
  switch (std::filesystem::status(path, ignored).type()) {
    case std::filesystem::file_type::regular:
      return FileKind::file;
    case std::filesystem::file_type::directory:
      return FileKind::folder;
    case std::filesystem::file_type::fifo:
      return FileKind::pipe;
    case std::filesystem::file_type::socket:
      return FileKind::socket;
    case std::filesystem::file_type::character:
    case std::filesystem::file_type::block:
      return FileKind::device;
    default:
      return FileKind::none;
  }
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

}  // namespace tessera
