#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/device.h"
#include "tessera/core/files.h"
#include "tessera/core/json_fwd.h"
#include "tessera/core/provenance.h"

namespace tessera::cost {

/// How one bitwidth runs under a kernel set on a class of devices. Ratios are of the device's
/// data-sheet peaks.
struct KernelRule {
  std::int32_t bitwidth = 16;
  std::string method;                   ///< "cublas-fp16", "gptq-marlin", "bitsandbytes-llm.int8"
  double min_compute_capability = 0;    ///< inclusive
  double max_compute_capability = 1e9;  ///< inclusive
  std::vector<std::string>
      devices;  ///< names; empty: any. A rule that names the device goes before one that does not
  std::string compute_dtype = "fp16";  ///< key of Device::flop_per_s
  std::string dtype;  ///< GEMM of a profile that prices this bitwidth ("int4_wo"); empty: none
  double flop_ratio = 0.6;           ///< reached share of peak FLOP/s, (0, 1]
  double memory_ratio = 0.8;         ///< reached share of peak bandwidth, (0, 1]
  double token_s_per_parameter = 0;  ///< extra time per token and weight of a matrix: kernels whose
                                     ///< cost grows with tokens (dequantisation per row)
  double linear_overhead_s = 0;      ///< per matrix: launch and set-up
  double group_size = 0;  ///< weights sharing one scale and zero point; 0: one per output channel
  std::string source;
};

/// Which bitwidths run on which device, and how well: data, not code.
struct KernelSet {
  std::string name, doc, source;
  Provenance provenance = Provenance::modelled;
  double layer_overhead_s = 0;  ///< per decoder layer: norms, residuals, launches
  double attention_flop_ratio = 0.4;
  double attention_memory_ratio = 0.6;
  std::vector<KernelRule> rules;

  /// The rule for a bitwidth on a device, or nullptr: no kernel, so no planner may choose it. Among
  /// the rules that apply, one that names the device goes first, then the highest
  /// min_compute_capability. A rule whose compute_dtype the device has no rate for does not apply.
  const KernelRule* find(const Device& device, std::int32_t bitwidth) const;
  std::vector<std::int32_t> bitwidths_on(const Device& device) const;  ///< ascending
};

/// Strict: unknown fields, ratios outside (0, 1], bitwidths outside 1..16 and two rules that would
/// match equally well are errors. @throws Error{invalid_argument | out_of_range} naming the field.
KernelSet kernel_set_from_json(const Json& json, const std::string& path);
Json to_json(const KernelSet& set);  ///< reads back exactly
/// The kernel set called `name`, matched like a device. @throws Error{not_found} with the nearest.
KernelSet find_kernel_set(const std::string& name, const DataFolders& folders);

}  // namespace tessera::cost
