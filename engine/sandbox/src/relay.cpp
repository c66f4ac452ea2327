#include "relay.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tessera/core/error.h"
#include "tessera/core/terminal_text.h"

namespace tessera::sandbox {
namespace {

constexpr int kLookMs = 50;

// False where nobody reads any more.
bool write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

Relay::Relay(int to) : to_(to) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(ErrorCode::io, fmt::format("cannot open a pipe: {}", std::strerror(errno)));
  }
  read_end_ = ends[0];
  write_end_ = ends[1];
}

Relay::~Relay() {
  if (thread_.joinable()) finish();
  for (const int end : {read_end_, write_end_}) {
    if (end >= 0) ::close(end);
  }
}

void Relay::connect() const { ::dup2(write_end_, to_); }

void Relay::start() {
  ::close(write_end_);
  write_end_ = -1;
  thread_ = std::thread([this] { pass_on(); });
}

void Relay::finish() {
  ended_ = true;
  thread_.join();
}

void Relay::pass_on() {
  const bool terminal = ::isatty(to_) == 1;
  unsigned char previous = 0;
  bool wanted = true;
  std::string text;
  for (;;) {
    pollfd file{read_end_, POLLIN, 0};
    const bool ended = ended_;  // before the look: what came earlier is seen by it
    if (::poll(&file, 1, kLookMs) <= 0) {
      if (ended) return;
      continue;
    }
    text.resize(1 << 16);
    const ssize_t n = ::read(read_end_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.resize(static_cast<std::size_t>(n));
    passed_bytes_ = passed_bytes_ + static_cast<double>(n);
    if (terminal) disarm(text, previous);
    if (wanted) wanted = write_all(to_, text);
  }
}

}  // namespace tessera::sandbox
