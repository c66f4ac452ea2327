#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "tessera/core/files.h"

namespace tessera {

/// A number of devices, or of nodes.
struct Counted {
  std::size_t count = 0;
  std::string_view what;
};

/// How many characters of a text are a sign between a count and what is counted: "x", "X", "*" or
/// "\u00d7"; 0 where there is none.
std::size_t times_sign(std::string_view text);

std::string_view stripped(std::string_view text);

/// Devices, clusters that ship and rented machines counted otherwise than by "3xT4": "H100 x8",
/// "A100:8", "8 H100", "dual RTX 3090", Slurm's "gpu:a100:4". Nothing where what is left is none.
std::optional<Counted> counted_otherwise(std::string_view text, const DataFolders& folders);

/// Whether a name is a count of devices, by any sign.
bool counts_devices(std::string_view name, const DataFolders& folders);

}  // namespace tessera
