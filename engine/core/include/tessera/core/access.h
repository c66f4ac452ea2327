#pragma once

#include <string>
#include <vector>

/// Which files this process may touch. Every file, until `restrict_access` is called: a sandboxed
/// script runs behind it. Whatever opens, creates, changes or removes a file on behalf of a script
/// asks here first, with the path as the script gave it.
namespace tessera {

struct AccessRules {
  std::string write_root;               ///< the one folder beneath which files may be written
  std::vector<std::string> read_roots;  ///< folders beneath which files may be read, besides it
};

/// From here on only these folders. Cannot be taken back or widened.
/// @throws Error{io} where a folder cannot be found, Error{internal} at a second call
void restrict_access(const AccessRules& rules);

bool access_is_restricted();

/// The folder of `restrict_access` with its links resolved, or "".
std::string write_root();

/// Links and ".." count as what they lead to; a link that leads nowhere, as the place where it
/// points. Files whose name, or a folder of theirs below the root, begins with a dot are not read:
/// they hold keys, histories and passwords.
/// @throws Error{io} naming the path, where it leads and the folders that are allowed
void check_may_read(const std::string& path);
void check_may_write(const std::string& path);

/// For removing and renaming, which act on a link and not on what it leads to.
void check_may_replace(const std::string& path);

/// @param what "worker processes", for the message
/// @throws Error{unsupported} where access is restricted
void check_may_start_processes(const std::string& what);

}  // namespace tessera
