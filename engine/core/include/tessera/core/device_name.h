#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tessera/core/files.h"

namespace tessera {

/// A device's name in parts, so that spellings of one compare equal: "NVIDIA A100-SXM4-80GB",
/// "a100_80g" and "A100 SXM" have the model "a100".
struct DeviceName {
  std::string model;  ///< lower case, without maker, series, memory, form and separators: "3080ti"
  std::optional<double> memory_gib;  ///< "80GB", "80G", "80 GiB"
  std::string form;                  ///< "sxm", "pcie", "nvl", or ""
};

/// An empty model where `text` has characters that no device's name has, or no model.
DeviceName parse_device_name(std::string_view text);

/// Whether some sheet's device is meant.
bool names_device(const std::string& name, const DataFolders& folders);

}  // namespace tessera
