#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/serving/traffic.h"

namespace tessera::serving {

/// Streams of requests that come at once, in order of arrival. Prefixes and sessions of one are not
/// those of another.
/// @throws Error{invalid_argument} naming `path` for a closed loop, whose requests wait for each
/// other, and for traces with block ids, which stand for tokens of other lengths in each file
Traffic joined(const std::vector<std::reference_wrapper<const Traffic>>& streams,
               const std::string& path);

}  // namespace tessera::serving
