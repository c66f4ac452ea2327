#pragma once

#include <string>

#include "tessera/core/indicator.h"

namespace tessera::indicator {

/// What is written may replace an indicator or an empty file, and nothing else: a file of the
/// model, say. @throws Error{invalid_argument} where another file is there
void check_replaceable(const std::string& path);

/// Writes it as JSON. @throws as check_replaceable(), Error{io}
void save_indicator(const Indicator& indicator, const std::string& path);

}  // namespace tessera::indicator
