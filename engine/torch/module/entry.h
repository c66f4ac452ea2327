#pragma once

#include "tessera/lm/module.h"

namespace tessera::lm {

/// What the shared module exports.
using ModuleEntry = const Module*();
inline constexpr const char* kModuleEntry = "tessera_models_module";

}  // namespace tessera::lm
