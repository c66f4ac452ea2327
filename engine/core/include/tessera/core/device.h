#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "tessera/core/json_fwd.h"

namespace tessera {

/// What a device file that does not say gets: the oldest capability with FP16 tensor cores, and
/// PCIe 3.0 x16.
inline constexpr double kDefaultComputeCapability = 7.0;
inline constexpr double kDefaultPcieBytesPerS = 15.75e9;

/// A GPU type, by its data sheet. One small JSON file each.
struct Device {
  std::string name;         ///< "T4-16G"
  std::string full_name;    ///< "NVIDIA Tesla T4"
  double memory_bytes = 0;  ///< as the driver reports it (after ECC), not the number on the box
  double memory_bytes_per_s = 0;  ///< peak
  std::map<std::string, double>
      flop_per_s;  ///< dense peak by dtype: fp16 (required), fp32, bf16, int8, fp8, int4
  double compute_capability = 0;             ///< 7.5
  double pcie_bytes_per_s = 0;               ///< one direction
  std::optional<double> nvlink_bytes_per_s;  ///< one direction, to one peer; absent: none
  std::optional<double> price_usd_per_h;     ///< public list price
  std::string price_source;
  std::string source;
};

Json to_json(const Device& device);

/// Reads the fields above under their own names. The memory may be given as memory_mib (what
/// nvidia-smi prints) or memory_gib instead; compute_capability and pcie_bytes_per_s have defaults.
/// @throws Error{invalid_argument | out_of_range} with file and field named.
Device device_from_json(const Json& json, const std::string& path);

}  // namespace tessera
