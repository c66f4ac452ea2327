#include "run_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/core/signal_action.h"

namespace tessera::app {
namespace {

[[noreturn]] void fail(const std::string& program, std::string_view what, int error) {
  throw Error(error == ENOENT ? ErrorCode::not_found : ErrorCode::io,
              fmt::format("{} '{}': {}", what, program, std::strerror(error)), program);
}

/// Both ends of a pipe; closed in programs that are started, and at the end.
class Pipe {
 public:
  explicit Pipe(const std::string& program) {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0) fail(program, "cannot make a pipe to", errno);
  }
  ~Pipe() {
    close_read();
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void close_read() { close_one(ends_[0]); }
  void close_write() { close_one(ends_[1]); }

 private:
  static void close_one(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }
  std::array<int, 2> ends_{-1, -1};
};

pid_t spawn(const std::vector<std::string>& words, const Pipe& in, const Pipe& out,
            const Pipe& err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read_end(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.write_end(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write_end(), STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail(words[0], "cannot start", error);
  return child;
}

/// Reads what there is; false at the end.
bool read_some(int file, std::string& text) {
  std::array<char, 65536> block;
  const ssize_t n = read(file, block.data(), block.size());
  if (n > 0) text.append(block.data(), static_cast<std::size_t>(n));
  return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

/// Writes and reads in turn, so that neither side waits for the other; false when it says too much.
bool exchange(Pipe& in, Pipe& out, Pipe& err, const std::string& input, std::size_t max_bytes,
              ProgramResult& result) {
  fcntl(in.write_end(), F_SETFL, O_NONBLOCK);
  std::size_t written = 0;
  while (out.read_end() >= 0 || err.read_end() >= 0) {
    if (written == input.size()) in.close_write();
    std::array<pollfd, 3> files{
        {{in.write_end(), POLLOUT, 0}, {out.read_end(), POLLIN, 0}, {err.read_end(), POLLIN, 0}}};
    poll(files.data(), files.size(), -1);
    if (files[0].revents != 0) {
      const ssize_t n = write(in.write_end(), input.data() + written, input.size() - written);
      if (n > 0) written += static_cast<std::size_t>(n);
      if (n < 0 && errno != EAGAIN && errno != EINTR) written = input.size();
    }
    if (files[1].revents != 0 && !read_some(out.read_end(), result.out)) out.close_read();
    if (files[2].revents != 0 && !read_some(err.read_end(), result.err)) err.close_read();
    if (result.out.size() + result.err.size() > max_bytes) return false;
  }
  return true;
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& words, const std::string& input,
                          std::size_t max_bytes) {
  check_may_start_processes(words[0]);
  Pipe in(words.at(0)), out(words[0]), err(words[0]);
  // A program that stopped reading early must not end this one.
  const SignalAction no_signal(SIGPIPE, SIG_IGN);
  const pid_t child = spawn(words, in, out, err);
  in.close_read();
  out.close_write();
  err.close_write();
  ProgramResult result;
  const bool complete = exchange(in, out, err, input, max_bytes, result);
  if (!complete) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!complete) {
    throw Error(ErrorCode::io,
                fmt::format("'{}' says more than {} bytes and was ended", words[0], max_bytes),
                words[0]);
  }
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace tessera::app
