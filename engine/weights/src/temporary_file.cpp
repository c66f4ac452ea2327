#include "temporary_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::weights {
namespace {

[[noreturn]] void fail_write(const std::string& path, int error) {
  throw Error(ErrorCode::io,
              fmt::format("cannot write {}: {}", quote(path, 300), std::strerror(error)), path);
}

mode_t mode_of_new_files() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

}  // namespace

TemporaryFile::TemporaryFile(const std::string& path) : path_(path), temporary_(path + ".XXXXXX") {
  check_may_write(path_);
  fd_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
  if (fd_ < 0) fail_write(path_, errno);
}

TemporaryFile::~TemporaryFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!committed_) ::unlink(temporary_.c_str());
}

void TemporaryFile::write(std::uint64_t offset, const void* data, std::size_t size) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::pwrite(fd_, bytes, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_write(path_, errno);
    bytes += n;
    offset += static_cast<std::uint64_t>(n);
    size -= static_cast<std::size_t>(n);
  }
}

void TemporaryFile::flush() {
  if (::fchmod(fd_, mode_of_new_files()) != 0 || ::fsync(fd_) != 0) fail_write(path_, errno);
  if (::close(std::exchange(fd_, -1)) != 0) fail_write(path_, errno);
}

void TemporaryFile::commit() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_write(path_, errno);
  committed_ = true;
}

}  // namespace tessera::weights
