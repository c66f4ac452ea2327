#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/json_fwd.h"
#include "tessera/core/record.h"
#include "tessera/core/units.h"

namespace tessera {

/// What a device file that does not say gets: the capability of no GPU in use, which keeps all
/// kernels of CUDA away, and PCIe 3.0 x16.
inline constexpr double kDefaultComputeCapability = 1.0;
inline constexpr double kDefaultPcieBytesPerS = 15.75e9;

/// Faster than any memory or link that exists; a number above them is a slip of the unit.
inline constexpr double kMaxBytesPerS = 1e15;
inline constexpr double kMaxGbps = 8e6;

/// Dtypes that devices have rates of: fp16 (required), fp32, bf16, int8, fp8, int4, fp4.
std::vector<std::string_view> flop_dtypes();

/// A GPU type, by its data sheet. One small JSON file each.
struct Device {
  std::string name;         ///< "T4-16G"
  std::string full_name;    ///< "NVIDIA Tesla T4"
  double memory_bytes = 0;  ///< as the driver reports it (after ECC), not the number on the box
  double memory_bytes_per_s = 0;  ///< peak
  std::map<std::string, double>
      flop_per_s;  ///< dense peak by dtype: fp16 (required), fp32, bf16, int8, fp8, int4, fp4
  /// What is left of the rates of short bursts, which tables of operators are made of, once power
  /// and clocks have settled under a server.
  double sustained_flop_ratio = 1;
  double compute_capability = kDefaultComputeCapability;  ///< 7.5
  /// Streaming multiprocessors (compute units of AMD's); absent: see multiprocessors_of.
  std::optional<double> num_multiprocessors;
  double pcie_bytes_per_s = kDefaultPcieBytesPerS;  ///< one direction
  std::optional<double> nvlink_bytes_per_s;         ///< one direction, to any peer; absent: none
  /// One direction, between two cards that a bridge joins, which a node has only where it says so.
  std::optional<double> nvlink_bridge_bytes_per_s;
  /// Whether two such cards reach each other's memory over PCIe. The drivers of GeForce cards do
  /// not let them, so that what goes from one to the other passes the host's memory.
  bool peer_access = true;
  std::optional<double> price_usd_per_h;  ///< public list price
  std::string price_source;
  std::string source;
  /// What programs drive it by where that is not CUDA: "rocm", "metal" or "sycl".
  std::optional<std::string> backend;
};

/// Rates by dtype: fp16 is required, and none is unknown.
struct FlopRates {
  static Json write(const std::map<std::string, double>& flop_per_s);
  static std::map<std::string, double> read(const Json& json, const std::string& path,
                                            const FieldSpec& spec);
};

template <>
struct Fields<Device> {
  static constexpr auto list = std::tuple{
      field<&Device::name>({.name = "name", .doc = "Name to refer to it by"}),
      field<&Device::full_name>(
          {.name = "full_name", .doc = "As on the box", .in_file = InFile::when_set}),
      field<&Device::memory_bytes>({.name = "memory_bytes",
                                    .doc = "Memory as the driver reports it",
                                    .unit = "bytes",
                                    .min = kMiB,
                                    .max = 1e15,
                                    .in_file = InFile::defaulted}),
      field<&Device::memory_bytes_per_s>({.name = "memory_bytes_per_s",
                                          .doc = "Peak memory bandwidth",
                                          .unit = "bytes/s",
                                          .min = 1e6,
                                          .max = kMaxBytesPerS}),
      field<&Device::flop_per_s, FlopRates>(
          {.name = "flop_per_s",
           .doc = "Dense peak rate by dtype: fp16 (required), fp32, bf16, int8, fp8, int4, fp4",
           .unit = "FLOP/s",
           .min = 1e6,
           .max = 1e18,
           .option_type = "table<string, number>"}),
      field<&Device::sustained_flop_ratio>(
          {.name = "sustained_flop_ratio",
           .doc = "Share of the measured rates of short bursts that a server keeps, once clocks "
                  "have settled",
           .min = 0.1,
           .max = 1,
           .in_file = InFile::when_set}),
      field<&Device::compute_capability>(
          {.name = "compute_capability",
           .doc = "CUDA compute capability, such as 7.5; left out: runs no CUDA",
           .min = 1,
           .max = 100,
           .in_file = InFile::defaulted}),
      field<&Device::num_multiprocessors>(
          {.name = "num_multiprocessors",
           .doc = "Streaming multiprocessors; left out: by the FP32 rate and the capability",
           .min = 1,
           .max = 1e4,
           .in_file = InFile::when_set}),
      field<&Device::pcie_bytes_per_s>({.name = "pcie_bytes_per_s",
                                        .doc = "PCIe bandwidth, one direction",
                                        .unit = "bytes/s",
                                        .min = 1e6,
                                        .max = kMaxBytesPerS,
                                        .in_file = InFile::defaulted}),
      field<&Device::nvlink_bytes_per_s>({.name = "nvlink_bytes_per_s",
                                          .doc = "NVLink bandwidth to one peer, one direction",
                                          .unit = "bytes/s",
                                          .min = 1e6,
                                          .max = kMaxBytesPerS,
                                          .in_file = InFile::when_set}),
      field<&Device::nvlink_bridge_bytes_per_s>(
          {.name = "nvlink_bridge_bytes_per_s",
           .doc = "NVLink bandwidth between two cards joined by a bridge, one direction",
           .unit = "bytes/s",
           .min = 1e6,
           .max = kMaxBytesPerS,
           .in_file = InFile::when_set}),
      field<&Device::peer_access>(
          {.name = "peer_access",
           .doc = "false: two such cards do not reach each other's memory over PCIe",
           .in_file = InFile::when_set}),
      field<&Device::price_usd_per_h>({.name = "price_usd_per_h",
                                       .doc = "List price",
                                       .unit = "USD/h",
                                       .min = 0,
                                       .max = 1e6,
                                       .in_file = InFile::when_set}),
      field<&Device::price_source>(
          {.name = "price_source", .doc = "Where the price was read", .in_file = InFile::when_set}),
      field<&Device::source>(
          {.name = "source", .doc = "Where the figures were read", .in_file = InFile::when_set}),
      field<&Device::backend>({.name = "backend",
                               .doc = "What drives it where not CUDA: rocm, metal or sycl",
                               .in_file = InFile::when_set})};
  /// A name has to be one that can be looked up.
  static void check(const Device& device, const FieldPath& path);
};

Json to_json(const Device& device);

/// Reads the fields above under their own names. The memory may be given as memory_mib (what
/// nvidia-smi prints) or memory_gib instead; compute_capability and pcie_bytes_per_s have defaults.
/// @throws Error{invalid_argument | out_of_range} with file and field named.
Device device_from_json(const Json& json, const std::string& path);

/// Whether its NVLink is AMD's Infinity Fabric: wires of their own between any two of a board.
bool joins_by_mesh(const Device& device);

/// How many multiprocessors share the device's work, at least 1. Where its sheet does not say, they
/// are estimated: the FP32 rate over what one of its architecture does at the usual boost clock,
/// within a fifth of what every shipped sheet says; without an FP32 rate the FP16 one, which boards
/// that throttle it (GeForce, H20) make too few by half and more.
double multiprocessors_of(const Device& device);

}  // namespace tessera
