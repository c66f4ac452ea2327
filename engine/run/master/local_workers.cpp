#include "tessera/run/local_workers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "tessera/core/access.h"
#include "tessera/core/error.h"

extern char** environ;

namespace tessera::run {
namespace {

std::string ending_of(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("ended by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  }
  return fmt::format("ended with status {}", WEXITSTATUS(status));
}

}  // namespace

LocalWorkers::LocalWorkers(Options options)
    : options_(std::move(options)),
      processes_(static_cast<std::size_t>(options_.num_ranks), 0),
      endings_(static_cast<std::size_t>(options_.num_ranks)) {}

LocalWorkers::~LocalWorkers() { stop(0); }

void LocalWorkers::start(std::int32_t rank) {
  check_may_start_processes("workers of a run");
  const auto at = static_cast<std::size_t>(rank);
  if (processes_[at] > 0) {
    ::kill(processes_[at], SIGKILL);
    wait_for(rank, 10);
  }
  endings_[at].clear();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  std::vector<std::string> words = {
      options_.program, "stage",          "--rank",   std::to_string(rank),
      "--connect",      options_.address, "--parent", std::to_string(::getpid())};
  std::vector<char*> arguments, variables;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::string secret = "TESSERA_RUN_SECRET=" + options_.secret;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "TESSERA_RUN_SECRET=", 19) != 0) variables.push_back(*variable);
  }
  variables.push_back(secret.data());
  variables.push_back(nullptr);
  const int error = ::posix_spawn(&processes_[at], arguments[0], &actions, &attributes,
                                  arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return;
  processes_[at] = 0;
  throw Error(ErrorCode::io,
              fmt::format("cannot start the worker of rank {}: {}", rank, std::strerror(error)));
}

bool LocalWorkers::wait_for(std::int32_t rank, double most_s) {
  const auto at = static_cast<std::size_t>(rank);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(most_s);
  while (processes_[at] > 0) {
    int status = 0;
    const pid_t pid = ::waitpid(processes_[at], &status, WNOHANG);
    if (pid != 0) {  // its end, or no child of ours (any more)
      if (pid > 0) endings_[at] = ending_of(status);
      processes_[at] = 0;
      break;
    }
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

std::string LocalWorkers::ending(std::int32_t rank) {
  wait_for(rank, 0.5);
  return endings_[static_cast<std::size_t>(rank)];
}

void LocalWorkers::stop(double grace_s) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int32_t rank = 0; rank < std::ssize(processes_); ++rank) {
    const double left =
        grace_s - std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (wait_for(rank, std::max(0.0, left))) continue;
    ::kill(processes_[static_cast<std::size_t>(rank)], SIGKILL);
    wait_for(rank, 10);
  }
}

}  // namespace tessera::run
