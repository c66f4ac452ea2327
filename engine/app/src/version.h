#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tessera::app {

/// What this program was built from, in the order of display; "none" for what it was built without.
std::vector<std::pair<std::string, std::string>> version_fields();

/// `tessera version`.
std::string version_text();

}  // namespace tessera::app
