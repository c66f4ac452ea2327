#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

/// Cores of the machine that this thread may run on, ascending; none where the system does not say.
std::vector<std::int32_t> usable_cores();

/// Keeps this thread, and those that it starts, to some of them; none: leaves it where it is.
/// @return whether the system lets it
bool keep_to_cores(const std::vector<std::int32_t>& cores);

}  // namespace tessera
