#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tessera/core/json_fwd.h"

namespace tessera::app {

/// What NVML, the library of NVIDIA's driver, says of this machine's GPUs.
struct NvmlAnswer {
  /// A list of { name, memory_bytes, bus_id, compute_capability, pcie_generation, pcie_width,
  /// nvlink_peers }: the largest generation and number of lanes that GPU and slot have, and for
  /// each active NVLink the bus id of what is at its other end, a GPU or a switch. Fields that the
  /// driver does not answer are absent. Absent itself without driver.
  std::optional<Json> gpus;
  std::string why_none;
};

/// Loads libnvidia-ml.so.1, or what TESSERA_NVML names, while it asks.
/// @throws Error{io} where the driver fails on what every GPU has: its name and memory.
NvmlAnswer ask_nvml();

}  // namespace tessera::app
