#pragma once

#include <optional>
#include <string>

namespace tessera::app {

/// Takes the lock that the file `path` stands for, until `unlock_file` or the end of the process in
/// any way; makes the file and says in it who has it. Links are not followed.
/// @return who has it, "process 123 on HOST since 2026-01-31 12:00:00 UTC" (empty where that cannot
/// be read), or nothing where it is ours. Where no such file can be made there is no lock, and it
/// counts as ours: whoever needs it has other files there, and says what is wrong.
std::optional<std::string> lock_file(const std::string& path);

/// Gives the lock back and removes the file; nothing where it is not ours.
void unlock_file(const std::string& path);

}  // namespace tessera::app
