#include "tessera/run/local_workers.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/workers/start_process.h"

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
  const int error = workers::start_process(
      {{options_.program, "stage", "--rank", std::to_string(rank), "--connect", options_.address,
        "--parent", std::to_string(::getpid())},
       {{STDOUT_FILENO}},
       {"TESSERA_RUN_SECRET=" + options_.secret}},
      processes_[at]);
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

std::string LocalWorkers::ended(std::int32_t rank) {
  const auto at = static_cast<std::size_t>(rank);
  const bool ran = processes_[at] > 0;
  return ran && wait_for(rank, 0) ? endings_[at] : std::string();
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
