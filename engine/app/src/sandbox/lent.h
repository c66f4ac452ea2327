#pragma once

#include <string>
#include <vector>

#include "tessera/core/files.h"

namespace tessera::app {

/// Whether the sandbox lends module `name` of the Lua library: one that holds nothing but what any
/// script may do, as it loads only modules that are lent, by their names in its text. Bindings in
/// C++ are not, but for tessera.core.
bool is_lent(const Installation& installation, const std::string& name);

/// Names of all modules that are lent, sorted.
std::vector<std::string> lent_modules(const Installation& installation);

}  // namespace tessera::app
