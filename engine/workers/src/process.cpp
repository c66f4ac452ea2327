#include "process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/workers/channel.h"
#include "tessera/workers/start_process.h"

namespace tessera::workers {
namespace {

[[noreturn]] void fail(const char* what, int error) {
  throw Error(ErrorCode::io,
              fmt::format("cannot start a worker process: {}: {}", what, std::strerror(error)));
}

// Both ends closed on exec, and beyond the descriptors that a worker finds its own at.
struct Ends {
  int ours = -1, theirs = -1;
  ~Ends() {
    if (ours >= 0) ::close(ours);
    if (theirs >= 0) ::close(theirs);
  }
  void keep(int first, int second) {
    ours = ::fcntl(first, F_DUPFD_CLOEXEC, 10);
    theirs = ::fcntl(second, F_DUPFD_CLOEXEC, 10);
    const int error = errno;
    ::close(first);
    ::close(second);
    if (ours < 0 || theirs < 0) fail("no file descriptor is left", error);
    ::fcntl(ours, F_SETFL, O_NONBLOCK);
  }
};

pid_t spawn(const std::vector<std::string>& command, int socket, int log) {
  check_may_start_processes("workers for points");
  pid_t pid = -1;
  const int error = start_process(
      {command, {{STDOUT_FILENO, log}, {STDERR_FILENO, log}, {kChannelFd, socket}}}, pid);
  if (error != 0) fail(command.front().c_str(), error);
  return pid;
}

void keep_tail(std::string& text) {
  if (text.size() > kMaxLogBytes) text.erase(0, text.size() - kMaxLogBytes);
}

}  // namespace

Process::Process(const PoolSettings& settings) {
  int pair[2];
  Ends line, output;
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) fail("socketpair", errno);
  line.keep(pair[0], pair[1]);
  if (::pipe2(pair, O_CLOEXEC) != 0) fail("pipe", errno);
  output.keep(pair[0], pair[1]);
  std::vector<std::string> command = settings.command;
  command.push_back("--worker=" + WorkerArgument{::getpid(), settings.memory_bytes}.text());
  pid_ = spawn(command, line.theirs, output.theirs);
  socket_ = std::exchange(line.ours, -1);
  log_ = std::exchange(output.ours, -1);
  send(0, settings.setup);
}

Process::~Process() {
  if (pid_ > 0) end();
  ::close(socket_);
  ::close(log_);
}

void Process::send(std::uint64_t id, const std::string& text) {
  const FrameHeader header{static_cast<std::uint32_t>(text.size()), 0, id};
  out_.append(reinterpret_cast<const char*>(&header), sizeof header);
  out_ += text;
  flush();
}

void Process::flush() {
  while (written_ < out_.size()) {
    const ssize_t n = ::send(socket_, out_.data() + written_, out_.size() - written_, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // full for now, or closed, which reading will tell
    written_ += static_cast<std::size_t>(n);
  }
  out_.clear();
  written_ = 0;
}

bool Process::receive(std::vector<Frame>& frames) {
  char block[1 << 16];
  for (;;) {
    const ssize_t n = ::read(socket_, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return split_frames(frames);
    if (n <= 0) {
      split_frames(frames);
      return false;
    }
    in_.append(block, static_cast<std::size_t>(n));
    if (!split_frames(frames)) return false;
  }
}

bool Process::split_frames(std::vector<Frame>& frames) {
  std::size_t at = 0;
  while (in_.size() - at >= sizeof(FrameHeader)) {
    Frame frame;
    std::memcpy(&frame.header, in_.data() + at, sizeof(FrameHeader));
    broken_ = frame.header.length > kMaxFrameBytes;
    if (broken_ || in_.size() - at - sizeof(FrameHeader) < frame.header.length) break;
    frame.text = in_.substr(at + sizeof(FrameHeader), frame.header.length);
    at += sizeof(FrameHeader) + frame.header.length;
    frames.push_back(std::move(frame));
  }
  in_.erase(0, at);
  return !broken_;
}

void Process::read_log() {
  char block[1 << 16];
  for (;;) {
    const ssize_t n = ::read(log_, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    printed_.append(block, static_cast<std::size_t>(n));
    split_log();
  }
}

void Process::split_log() {
  for (;;) {
    const std::size_t mark = printed_.find(kLogMark);
    if (mark == std::string::npos || printed_.size() - mark < kLogMarkBytes) break;
    const std::string digits = printed_.substr(mark + kLogMark.size(), 16);
    std::string text = printed_.substr(0, mark);
    keep_tail(text);
    logs_.emplace_back(std::strtoull(digits.c_str(), nullptr, 16), std::move(text));
    printed_.erase(0, mark + kLogMarkBytes);
  }
  if (printed_.size() > 2 * kMaxLogBytes) keep_tail(printed_);
}

std::string Process::log_of(std::uint64_t id) {
  const auto ended = [&] {
    for (const auto& entry : logs_) {
      if (entry.first == id) return true;
    }
    return false;
  };
  if (!ended()) read_log();
  std::string text;
  while (!logs_.empty()) {
    auto [owner, part] = std::move(logs_.front());
    logs_.pop_front();
    if (owner != 0) text += part;
    if (owner == id) break;
  }
  keep_tail(text);
  return text;
}

std::string Process::rest_of_log() {
  read_log();
  std::string text;
  text += printed_;
  logs_.clear();
  printed_.clear();
  keep_tail(text);
  return text;
}

void Process::kill() {
  if (pid_ > 0) ::kill(-pid_, SIGKILL);
}

Ending Process::end() {
  int status = 0;
  rusage usage{};
  pid_t ended = 0;
  // One that closed its line is on its way out. One that lives on is not wanted any more.
  for (int i = 0; i < 100 && ended == 0; ++i) {
    ended = ::wait4(pid_, &status, WNOHANG, &usage);
    if (ended == 0 && i == 0 && socket_ >= 0) {
      char byte;
      const ssize_t n = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      if (n < 0 || n > 0) break;
    }
    if (ended == 0) ::usleep(2000);
  }
  kill();  // what the process started as well
  if (ended == 0) {
    while (::wait4(pid_, &status, 0, &usage) < 0 && errno == EINTR) {
    }
  }
  pid_ = -1;
  Ending ending;
  ending.peak_bytes = static_cast<double>(usage.ru_maxrss) * 1024;
  if (WIFSIGNALED(status)) ending.signal = WTERMSIG(status);
  if (WIFEXITED(status)) ending.exit_code = WEXITSTATUS(status);
  return ending;
}

}  // namespace tessera::workers
