#pragma once

#include <map>
#include <string>
#include <vector>

#include "host.h"

namespace tessera::app {

enum class Verb { run, code, repl, list, help, version, plan, usage };

/// What the command line asks for.
struct Command {
  Verb verb = Verb::usage;
  HostSettings settings;
  std::vector<std::string> files;
  std::string code;
  std::string topic;
  std::map<std::string, std::string> plan_flags;  ///< option name -> text as given
};

/// A command line that cannot be understood (exit status 2), or that asks for help (status 0).
struct UsageError {
  std::string message;
  ExitStatus status = kUsage;
};

/// @throws UsageError
Command parse_command_line(int argc, char** argv);

/// "--prompt-tokens" for "prompt_tokens".
std::string flag_of(std::string_view option);

}  // namespace tessera::app
