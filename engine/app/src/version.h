#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/core/json.h"

namespace tessera::app {

/// What this program was built from, in the order of display; "none" for what it was built without.
std::vector<std::pair<std::string, std::string>> version_fields();

/// `tessera version`.
std::string version_text();

/// `tessera version --kernels`: every version of every kernel, whether it runs here and whether a
/// test has ever run it.
std::string kernels_text();

/// The same as data: {"kernels": [{"name", "isa", "runs_here", "chosen"}],
/// "cuda_kernels":
/// [{"name", "first_capability", "last_capability", "tested", "does"}], "cuda_architectures"}.
Json kernels_json();

}  // namespace tessera::app
