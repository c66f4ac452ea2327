#pragma once

#include <sys/types.h>

#include <string>

namespace tessera::detail {

/// The pattern for mkstemp and mkdtemp: "dir/plan.json.partial.XXXXXX", beside `target`.
std::string scratch_name(const std::string& target);

/// Whether a file or folder of this name beside `target` is one.
bool is_scratch_of(const std::string& name, const std::string& target);

/// What the folder of `target` holds, to the disk: a name that was given there stays after a power
/// loss. @param path for the message
void sync_folder_of(const std::string& target, const std::string& path);

void sync_folder(const std::string& folder, const std::string& path);

/// What new files and folders do not get: the process's umask.
mode_t mask_of_new_files();

}  // namespace tessera::detail
