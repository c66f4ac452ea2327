#pragma once

#include "../versions.h"

// The obvious scalar versions; see versions.h.
namespace tessera::kernels::cpu::reference {
#include "../functions.inc"
}  // namespace tessera::kernels::cpu::reference
