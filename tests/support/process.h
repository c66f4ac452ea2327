#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sanitised.h"

namespace tessera::test {

struct Process {
  int status = -1;  ///< exit status, or 128 + signal
  std::string out, err;
  double seconds = 0;
  double cpu_s = 0;  ///< user and system; does not depend on what else the machine does
};

struct ProcessSetup {
  std::string input = {};
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::string out_path = {};  ///< stdout goes there instead of `Process::out`
  std::string directory = {};
  /// Called with the process id as soon as `err` or `out` contains `wait_for`.
  std::string wait_for = {};
  std::function<void(pid_t)> then = {};
  std::function<void()> in_child = {};  ///< called in the new process before the program starts
  double timeout_s = kSanitised ? 240 : 60;
  double silence_s = 1e9;  ///< the program is killed, too, when it prints nothing for so long
};

namespace detail {

[[noreturn]] inline void execute(const std::vector<std::string>& command, const ProcessSetup& setup,
                                 const int in[2], const int out[2], const int err[2]) {
  dup2(in[0], STDIN_FILENO);
  const int out_file = setup.out_path.empty() ? out[1] : open(setup.out_path.c_str(), O_WRONLY);
  dup2(out_file, STDOUT_FILENO);
  dup2(err[1], STDERR_FILENO);
  for (const int fd : {in[0], in[1], out[0], out[1], err[0], err[1]}) close(fd);
  for (const auto& [name, value] : setup.environment) setenv(name.c_str(), value.c_str(), 1);
  if (!setup.directory.empty() && chdir(setup.directory.c_str()) != 0) _exit(126);
  if (setup.in_child) setup.in_child();
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace detail

/// Runs a program to its end and collects what it prints. `input` must fit a pipe (64 KiB).
inline Process run_process(const std::vector<std::string>& command, ProcessSetup setup = {}) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  int in[2], out[2], err[2];
  if (pipe(in) != 0 || pipe(out) != 0 || pipe(err) != 0) std::abort();
  const pid_t pid = fork();
  if (pid == 0) detail::execute(command, setup, in, out, err);
  for (const int fd : {in[0], out[1], err[1]}) close(fd);
  // Ignored only here: what is ignored stays ignored in programs that are started later.
  const auto on_broken_pipe = signal(SIGPIPE, SIG_IGN);
  if (!setup.input.empty() && write(in[1], setup.input.data(), setup.input.size()) < 0) {
    setup.input.clear();  // the program did not want to read
  }
  signal(SIGPIPE, on_broken_pipe);
  close(in[1]);

  Process result;
  pollfd files[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  std::string* texts[2] = {&result.out, &result.err};
  double printed_at = 0;
  while (files[0].fd >= 0 || files[1].fd >= 0) {
    if (elapsed() > setup.timeout_s || elapsed() > printed_at + setup.silence_s) kill(pid, SIGKILL);
    poll(files, 2, 100);
    for (int i = 0; i < 2; ++i) {
      if (files[i].fd < 0 || files[i].revents == 0) continue;
      char block[4096];
      const ssize_t n = read(files[i].fd, block, sizeof block);
      printed_at = elapsed();
      if (n > 0) texts[i]->append(block, static_cast<std::size_t>(n));
      if (n <= 0) files[i].fd = -1;
    }
    const bool ready = result.out.find(setup.wait_for) != std::string::npos ||
                       result.err.find(setup.wait_for) != std::string::npos;
    if (setup.then && !setup.wait_for.empty() && ready) std::exchange(setup.then, nullptr)(pid);
  }
  close(out[0]);
  close(err[0]);
  int status = 0;
  rusage usage{};
  wait4(pid, &status, 0, &usage);
  const auto seconds_of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  result.cpu_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.seconds = elapsed();
  return result;
}

}  // namespace tessera::test
