#pragma once

#include <string>
#include <vector>

#include "command_line.h"
#include "host.h"
#include "tessera/core/access.h"
#include "tessera/sandbox/supervise.h"

/// `tessera run --sandbox`: a script that someone else wrote, in a process that is watched, behind
/// two walls that each suffice: what Lua code can reach, and what the kernel lets the process do.
namespace tessera::app {

/// What the command line asks for, checked.
struct Sandbox {
  sandbox::Limits limits;
  AccessRules access;
  std::vector<std::string> module_folders;  ///< where the script's `require` looks, in order
  Command command;                          ///< as it runs inside
};

/// Makes the output folder. @throws UsageError, Error{io}
Sandbox prepare_sandbox(const Command& command);

/// The kernel's wall, around this process; says on stderr what this kernel lacks.
void build_kernel_wall(const Sandbox& box);

/// Lua's wall: scripts that `host` loads from here on reach nothing but what is lent to them.
/// Needs `restrict_access`.
void build_lua_wall(Host& host, const std::vector<std::string>& module_folders);

/// Runs the command in a process of its own, behind both walls.
ExitStatus run_sandboxed(const Command& command);

}  // namespace tessera::app
