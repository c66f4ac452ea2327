#pragma once

#include <optional>
#include <string>

#include "tessera/sandbox/confine.h"

/// The walls of `confine`, one file each. Each returns why it could not be built, or nothing.
namespace tessera::sandbox {

using Missing = std::optional<std::string>;

Missing build_landlock(const Confinement& confinement);
Missing build_seccomp();

}  // namespace tessera::sandbox
