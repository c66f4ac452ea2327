#include "mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::weights {
namespace {

[[noreturn]] void fail_read(const std::string& path, const std::string& reason, ErrorCode code) {
  throw Error(code, fmt::format("cannot read {}: {}", quote(path, 300), reason), path);
}

[[noreturn]] void fail_read(const std::string& path, int error) {
  fail_read(path, std::strerror(error), error == ENOENT ? ErrorCode::not_found : ErrorCode::io);
}

}  // namespace

Mapping::Mapping(const std::string& path) : path_(path) {
  if (path.find('\0') != std::string::npos) {
    fail_read(quote(path, 300), "the path contains a NUL byte", ErrorCode::invalid_argument);
  }
  check_may_read(path);
  // Without O_NONBLOCK a pipe in the place of a file would wait for its writer.
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) fail_read(path, errno);
  struct stat info {};
  const int failed = ::fstat(fd_, &info) != 0 ? errno
                     : S_ISDIR(info.st_mode)  ? EISDIR
                     : S_ISREG(info.st_mode)  ? 0
                                              : EINVAL;
  size_ = static_cast<std::size_t>(info.st_size);
  modified_s_ = info.st_mtim.tv_sec;
  modified_ns_ = info.st_mtim.tv_nsec;
  if (failed == 0 && size_ > 0) {
    void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd_, 0);
    if (mapped != MAP_FAILED) data_ = static_cast<const std::byte*>(mapped);
  }
  if (failed != 0 || (size_ > 0 && data_ == nullptr)) {
    const int reason = failed != 0 ? failed : errno;
    ::close(fd_);
    if (reason == EINVAL) fail_read(path, "it is no regular file", ErrorCode::io);
    fail_read(path, reason);
  }
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  ::close(fd_);
}

void Mapping::check_unchanged() const {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) fail_read(path_, errno);
  if (static_cast<std::size_t>(info.st_size) != size_) {
    fail_read(path_,
              fmt::format("it had {} bytes when it was opened and has {} now; open it again", size_,
                          info.st_size),
              ErrorCode::io);
  }
  if (info.st_mtim.tv_sec != modified_s_ || info.st_mtim.tv_nsec != modified_ns_) {
    fail_read(path_, "it was written to after it was opened; open it again", ErrorCode::io);
  }
}

void Mapping::release(std::uint64_t offset, std::uint64_t size) const {
  advise(offset, size, MADV_DONTNEED);
}

void Mapping::prefetch(std::uint64_t offset, std::uint64_t size) const {
  // Linux takes as much of an advice as it reads ahead at a time, some megabytes or less.
  constexpr std::uint64_t kPiece = 128 << 10;
  for (std::uint64_t done = 0; done < size; done += kPiece) {
    advise(offset + done, std::min(kPiece, size - done), MADV_WILLNEED);
  }
}

void Mapping::advise(std::uint64_t offset, std::uint64_t size, int advice) const {
  if (size == 0) return;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t first = offset / page * page;
  // Where the system does not take it, nothing is wrong but memory and time.
  ::madvise(const_cast<std::byte*>(data_) + first, offset + size - first, advice);
}

}  // namespace tessera::weights
