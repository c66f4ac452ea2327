#pragma once

#include "database.h"

namespace tessera::results {

/// Makes the tables in an empty file, and refuses every file that is neither empty nor ours.
/// @throws Error{unsupported} for a newer version, Error{io} for a file of another program.
void prepare_schema(Database& database);

}  // namespace tessera::results
