#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <utility>

#include "tessera/core/error.h"

/// What reading and writing of files share.
namespace tessera::detail {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// "cannot read 'a.json': No such file or directory"
[[noreturn]] void fail_file(const char* verb, const std::string& path, int error);
[[noreturn]] void fail_file(const char* verb, const std::string& path, const std::string& reason);

/// @throws Error{invalid_argument}: the system's calls would cut such a path short and touch
/// another file.
void refuse_nul(const std::string& path);

/// Waiting for the other end of a pipe, or for whoever types. Where it takes long, stderr says once
/// what is waited for.
class Waiting {
 public:
  /// @param what "it is a pipe that holds nothing to read"
  Waiting(std::string path, std::string what) : path_(std::move(path)), what_(std::move(what)) {}

  /// Up to 100 ms; whether `fd` is ready for `events`. @throws Error{interrupted} after Ctrl-C
  bool look(int fd, short events);
  void until(int fd, short events) {
    while (!look(fd, events)) {
    }
  }

 private:
  std::string path_, what_;
  int num_looks_ = 0;
};

}  // namespace tessera::detail
