#pragma once

#include <sqlite3.h>

#include <optional>
#include <string>

#include "tessera/core/error.h"
#include "tessera/results/store.h"

/// Which files belong to a results file, and what may lie in their places. SQLite trusts what it
/// finds beside a database: it plays a log back, removes files that one names, writes through
/// links. Here nothing is trusted because it lies there.
namespace tessera::results {

/// @throws Error: "results file 'r.db': it is a folder"
[[noreturn]] void refuse_file(ErrorCode code, const std::string& path, const std::string& problem);

/// The file that `path` means: absolute, no link in its folders; for reading, a link itself is
/// followed too.
/// @throws Error{not_found} where there is no file and none may be made, Error{io} for what is no
/// file, may not be touched or has something beside it that is not ours.
std::string check_file(const std::string& path, const OpenOptions& options);

/// What is wrong with FILE-journal, FILE-wal or FILE-shm beside `file`, in words; nothing where all
/// is well.
std::optional<std::string> problem_beside(const std::string& file);

/// How SQLite reaches files: as it always does, and only FILE, FILE-wal and FILE-shm. It looks
/// beside the file once more when it opens it, plays no journal back and removes nothing but
/// FILE-wal. The name to open a connection with.
const char* guarded_files();

}  // namespace tessera::results
