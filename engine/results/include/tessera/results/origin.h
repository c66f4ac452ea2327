#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tessera/core/json_fwd.h"

/// What a result says about where it comes from.
namespace tessera::results {

/// SHA-256 (FIPS 180-4) in lower-case hexadecimal.
std::string sha256(std::string_view text);

/// The same of a file of any length, which is read piece by piece; `progress`, where given, is told
/// how many bytes are done after each.
/// @throws Error{io} naming the path and why it cannot be read; what is no regular file cannot
std::string file_sha256(const std::string& path,
                        const std::function<void(std::uint64_t)>& progress = {});

/// { host, os, kernel, cpu, num_cores, memory_bytes } of this machine; what cannot be told is left
/// out.
Json machine_facts();

/// The commit that is checked out in the git repository around `path` (a file or a folder), or ""
/// outside of one. Reads git's own files and starts no process.
std::string git_commit(const std::string& path);

}  // namespace tessera::results
