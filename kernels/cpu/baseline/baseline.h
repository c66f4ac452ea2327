#pragma once

#include "../versions.h"

// Versions for what every CPU of the architecture has; see versions.h.
namespace tessera::kernels::cpu::baseline {
#include "../functions.inc"
}  // namespace tessera::kernels::cpu::baseline
