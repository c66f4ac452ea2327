#pragma once

#include <string>
#include <vector>

#include "flags.h"
#include "host.h"
#include "verbs.h"

namespace tessera::app {

enum class Verb { run, code, repl, list, help, version, lua, usage };

/// What the command line asks for.
struct Command {
  Verb verb = Verb::usage;
  HostSettings settings;
  std::vector<std::string> files;
  std::string code;
  std::string topic;
  bool kernels = false;               ///< `version` is to list the kernels
  const LuaVerb* lua_verb = nullptr;  ///< with Verb::lua
  std::vector<std::string> names;     ///< of a LuaVerb: its words without a flag
  FlagValues flags;                   ///< of a LuaVerb, or of `run`
};

/// A command line that cannot be understood (exit status 2), or that asks for help (status 0).
struct UsageError {
  std::string message;
  ExitStatus status = kUsage;
};

/// @throws UsageError
Command parse_command_line(int argc, char** argv);

/// The flags among a script's arguments, where the script turned out to be an experiment.
/// @throws UsageError for anything else
FlagValues parse_run_flags(const std::vector<std::string>& arguments);

}  // namespace tessera::app
