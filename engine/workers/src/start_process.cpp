#include "tessera/workers/start_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string_view>

extern char** environ;

namespace tessera::workers {
namespace {

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<char*> environment_with(const std::vector<std::string>& variables) {
  std::vector<char*> all = pointers_to(variables);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const bool is_replaced = std::ranges::any_of(variables, [&](const std::string& own) {
      return std::string_view(*variable).starts_with(own.substr(0, own.find('=') + 1));
    });
    if (!is_replaced) all.insert(all.end() - 1, *variable);
  }
  return all;
}

}  // namespace

int start_process(const Launch& launch, pid_t& process) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  for (const Launch::Descriptor& descriptor : launch.descriptors) {
    if (descriptor.from < 0) {
      posix_spawn_file_actions_addopen(&actions, descriptor.number, "/dev/null", O_WRONLY, 0);
    } else {
      posix_spawn_file_actions_adddup2(&actions, descriptor.from, descriptor.number);
    }
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  const std::vector<char*> arguments = pointers_to(launch.command);
  const std::vector<char*> variables = environment_with(launch.variables);
  const int error = ::posix_spawn(&process, arguments[0], &actions, &attributes, arguments.data(),
                                  variables.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace tessera::workers
