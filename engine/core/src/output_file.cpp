#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "descriptor.h"
#include "scratch.h"
#include "tessera/core/access.h"
#include "tessera/core/files.h"
#include "tessera/core/output.h"
#include "tessera/core/text.h"

namespace tessera {
namespace fs = std::filesystem;

namespace detail {

mode_t mask_of_new_files() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}

}  // namespace detail

namespace {

using detail::Descriptor;
using detail::fail_file;

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

// What is there now, if anything, and may be written.
struct Target {
  struct stat info {};
  bool exists = false;

  explicit Target(const std::string& path) : exists(::stat(path.c_str(), &info) == 0) {
    if (!exists) return;
    if (S_ISDIR(info.st_mode)) fail_file("write", path, EISDIR);
    if (S_ISSOCK(info.st_mode)) fail_file("write", path, "it is a socket");
    if (::access(path.c_str(), W_OK) != 0) fail_file("write", path, errno);
  }
  // Nothing can be renamed to it.
  bool is_special() const {
    return exists && (!S_ISREG(info.st_mode) || standard_stream(info) >= 0);
  }
};

/// Where bytes go that nothing can be renamed to: a standard stream, a pipe, a device.
class Sink {
 public:
  Sink(const std::string& path, const struct stat& info)
      : path_(path),
        stream_(standard_stream(info)),
        own_(stream_ >= 0 ? -1 : open_to_write(S_ISFIFO(info.st_mode))) {
    if (stream_ >= 0) std::fflush(nullptr);
  }

  void write(std::string_view text) {
    const int fd = stream_ >= 0 ? stream_ : own_.get();
    detail::Waiting waiting(path_, "whoever reads from it takes nothing");
    while (!text.empty()) {
      const ssize_t n = ::write(fd, text.data(), text.size());
      if (n >= 0) {
        text.remove_prefix(static_cast<std::size_t>(n));
      } else if (errno == EAGAIN) {
        waiting.until(fd, POLLOUT);
      } else if (errno != EINTR) {
        fail_file("write", path_, errno);
      }
    }
  }

 private:
  // A pipe that nobody reads would hold up the call itself, and Ctrl-C with it.
  int open_to_write(bool is_pipe) const {
    detail::Waiting waiting(path_, "it is a pipe that nobody has opened to read from");
    for (;;) {
      const int fd = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
      if (fd >= 0) return fd;
      if (!is_pipe || errno != ENXIO) fail_file("write", path_, errno);
      waiting.look(-1, 0);
    }
  }

  std::string path_;
  int stream_;
  Descriptor own_;
};

// For whoever reads only parts: `take` gets one piece after the other.
template <class Take>
void read_pieces(const std::string& path, Take take) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) fail_file("read", path, errno);
  std::string block(1 << 20, '\0');
  for (;;) {
    const ssize_t n = ::read(file.get(), block.data(), block.size());
    if (n == 0) return;
    if (n < 0 && errno != EINTR) fail_file("read", path, errno);
    if (n > 0) take(std::string_view(block.data(), static_cast<std::size_t>(n)));
  }
}

}  // namespace

OutputFile::OutputFile(const std::string& path, unsigned mode_of_new) : path_(path), target_(path) {
  detail::refuse_nul(path);
  check_may_write(path);
  const Target there(path);
  has_special_target_ = there.is_special();
  mode_ = mode_of_new & ~detail::mask_of_new_files();
  if (there.exists && !has_special_target_) {
    mode_ = there.info.st_mode & 07777;
    std::error_code error;
    target_ = fs::canonical(path, error).string();
    if (error) fail_file("write", path, error.value());
  }
  scratch_ = detail::scratch_name(target_);
  fd_ = ::mkostemp(scratch_.data(), O_CLOEXEC);
  if (fd_ < 0) fail_file("write", path, errno);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!is_committed_) ::unlink(scratch_.c_str());
}

void OutputFile::write(std::uint64_t offset, const void* data, std::size_t size) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::pwrite(fd_, bytes, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_file("write", path_, errno);
    bytes += n;
    offset += static_cast<std::uint64_t>(n);
    size -= static_cast<std::size_t>(n);
  }
  size_ = std::max(size_, offset);
}

const std::string& OutputFile::scratch_path() {
  is_written_by_name_ = true;
  return scratch_;
}

void OutputFile::flush() {
  struct stat info {};
  if (::fchmod(fd_, mode_) != 0 || ::fsync(fd_) != 0 || ::fstat(fd_, &info) != 0) {
    fail_file("write", path_, errno);
  }
  if (!is_written_by_name_ && static_cast<std::uint64_t>(info.st_size) != size_) {
    fail_file("write", path_,
              fmt::format("{} bytes of {} have arrived on the disk", info.st_size, size_));
  }
  if (::close(std::exchange(fd_, -1)) != 0) fail_file("write", path_, errno);
}

void OutputFile::commit() {
  if (fd_ >= 0) flush();
  if (has_special_target_) return copy_to_target();
  if (::rename(scratch_.c_str(), target_.c_str()) != 0) fail_file("write", path_, errno);
  is_committed_ = true;
  detail::sync_folder_of(target_, path_);
}

// The scratch file goes with this object.
void OutputFile::copy_to_target() {
  Sink sink(path_, Target(path_).info);
  read_pieces(scratch_, [&](std::string_view piece) { sink.write(piece); });
}

void write_file(const std::string& path, const std::string& content) {
  detail::refuse_nul(path);
  check_may_write(path);
  if (const Target there(path); there.is_special()) return Sink(path, there.info).write(content);
  OutputFile file(path);
  file.append(content);
  file.commit();
}

void copy_file(const std::string& from, const std::string& to) {
  check_may_read(from);
  if (file_kind(from) != FileKind::file) fail_file("read", from, "it is no regular file");
  OutputFile file(to);
  read_pieces(from, [&](std::string_view piece) { file.append(piece); });
  file.commit();
}

}  // namespace tessera
