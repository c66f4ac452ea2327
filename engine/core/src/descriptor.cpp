#include "descriptor.h"

#include <fmt/format.h>
#include <poll.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tessera/core/files.h"
#include "tessera/core/terminal_text.h"
#include "tessera/core/text.h"

namespace tessera {
namespace {

constexpr int kLookMs = 100;
constexpr int kLooksBeforeAWord = 20;  // 2 s

std::atomic<const std::atomic<bool>*> stop_flag{nullptr};

}  // namespace

void stop_waiting_when(const std::atomic<bool>* flag) { stop_flag = flag; }

namespace detail {

void fail_file(const char* verb, const std::string& path, int error) {
  const ErrorCode code = error == ENOENT ? ErrorCode::not_found : ErrorCode::io;
  throw Error(code, fmt::format("cannot {} {}: {}", verb, quote(path, 300), std::strerror(error)),
              path);
}

void fail_file(const char* verb, const std::string& path, const std::string& reason) {
  throw Error(ErrorCode::io, fmt::format("cannot {} {}: {}", verb, quote(path, 300), reason), path);
}

void refuse_nul(const std::string& path) {
  if (path.find('\0') == std::string::npos) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the path {} contains a NUL byte", quote(path, 300)), quote(path, 300));
}

bool Waiting::look(int fd, short events) {
  const std::atomic<bool>* stop = stop_flag;
  if (stop != nullptr && *stop) {
    throw Error(ErrorCode::interrupted, "interrupted while waiting for " + quote(path_, 300),
                path_);
  }
  pollfd file{fd, events, 0};
  if (::poll(&file, 1, kLookMs) > 0) return true;
  if (++num_looks_ == kLooksBeforeAWord) {
    write_text(stderr, fmt::format("tessera: waiting for {}: {} (Ctrl-C ends the wait)\n",
                                   quote(path_, 300), what_));
  }
  return false;
}

}  // namespace detail
}  // namespace tessera
