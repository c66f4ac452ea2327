#include "tessera/workers/channel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "frame.h"
#include "tessera/core/error.h"

namespace tessera::workers {
namespace {

// What sanitizers map beside a program's memory is far beyond any limit.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimitsMemory = false;
#else
constexpr bool kLimitsMemory = true;
#endif

bool read_exactly(int fd, void* target, std::size_t length) {
  auto* at = static_cast<char*>(target);
  while (length > 0) {
    const ssize_t n = ::read(fd, at, length);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    length -= static_cast<std::size_t>(n);
  }
  return true;
}

void write_exactly(int fd, const char* from, std::size_t length) {
  while (length > 0) {
    const ssize_t n = ::write(fd, from, length);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ::_exit(1);  // the pool is gone, and nobody reads what is left to say
    from += n;
    length -= static_cast<std::size_t>(n);
  }
}

void set_limit(int resource, double bytes) {
  const auto value = static_cast<rlim_t>(bytes);
  const rlimit limit{value, value};
  ::setrlimit(resource, &limit);
}

}  // namespace

std::string WorkerArgument::text() const { return fmt::format("{},{:.0f}", parent, memory_bytes); }

WorkerArgument WorkerArgument::parse(const std::string& text) {
  WorkerArgument result;
  if (std::sscanf(text.c_str(), "%d,%lf", &result.parent, &result.memory_bytes) != 2) {
    throw Error(ErrorCode::invalid_argument, "--worker is for processes that 'tessera run' starts");
  }
  return result;
}

Channel::Channel(const WorkerArgument& argument) : socket_(kChannelFd) {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(socket_, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    throw Error(ErrorCode::unsupported,
                "a worker process has no pool: it is started by 'tessera run', not by hand");
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != argument.parent) ::_exit(1);  // it died before it could be watched
  ::fcntl(socket_, F_SETFD, FD_CLOEXEC);
  log_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, kChannelFd + 1);
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);  // what was printed survives a crash
  set_limit(RLIMIT_CORE, 0);
  if (kLimitsMemory && argument.memory_bytes > 0) set_limit(RLIMIT_DATA, argument.memory_bytes);
}

Channel::~Channel() {
  ::close(socket_);
  ::close(log_);
}

std::optional<Channel::Message> Channel::receive() {
  FrameHeader header;
  if (!read_exactly(socket_, &header, sizeof header)) return std::nullopt;
  Message message{header.id, std::string(header.length, '\0')};
  if (!read_exactly(socket_, message.text.data(), message.text.size())) return std::nullopt;
  return message;
}

void Channel::ready() {
  mark_log(0);
  send(0, "", kReady);
}

void Channel::answer(std::uint64_t id, const std::string& text, bool last) {
  mark_log(id);
  send(id, text, last ? std::uint32_t{kLast} : 0);
}

void Channel::mark_log(std::uint64_t id) {
  std::fflush(stdout);
  std::fflush(stderr);
  const std::string mark = fmt::format("{}{:016x}\n", kLogMark, id);
  write_exactly(log_, mark.data(), mark.size());
}

void Channel::send(std::uint64_t id, const std::string& text, std::uint32_t flags) {
  if (text.size() > kMaxFrameBytes) {
    throw Error(ErrorCode::unsupported,
                fmt::format("an answer of {} MiB is longer than a worker may send, {} MiB",
                            text.size() >> 20, kMaxFrameBytes >> 20));
  }
  const FrameHeader header{static_cast<std::uint32_t>(text.size()), flags, id};
  std::string frame(reinterpret_cast<const char*>(&header), sizeof header);
  frame += text;
  write_exactly(socket_, frame.data(), frame.size());
}

}  // namespace tessera::workers
