#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/placement.h"
#include "tessera/cost/stage_price.h"
#include "tessera/solver/plan/plan.h"

/// What of a placement a runtime cannot launch. Reasons are sentences without full stops; none
/// where it can. `tessera` runs all that has a price.
namespace tessera::solver {

/// The least compute capability on which vLLM's attention reads FP8, its KV cache of 8 bits. The
/// kernel sets of vLLM say the same (kv_rules).
inline constexpr double kFp8Capability = 8.9;

/// Kernels that are missing for engines of some bitwidths on a type of device, whatever their
/// shape.
std::vector<std::string> kernel_obstacles(Runtime runtime,
                                          const std::vector<std::int32_t>& bitwidths,
                                          std::int32_t kv_bitwidth, const std::string& device,
                                          double compute_capability);

/// Of one engine. @param multi_node whether the runtime's version starts pipelines over nodes with
/// equally many GPUs without Ray
std::vector<std::string> launch_obstacles(Runtime runtime, const cost::PricingContext& context,
                                          const Placement& placement, std::size_t engine,
                                          bool multi_node);

/// Of all engines of a plan, each with its own kernel set.
std::vector<std::string> launch_obstacles(Runtime runtime, const Plan& plan,
                                          const Placement& placement, bool multi_node);

/// Whether 8 bit means integers for the weights alone on every device of a cluster, so that layers
/// of other bitwidths may stand beside them in one checkpoint.
bool has_integers_alone(const cost::PricingContext& context);

/// "int" (weights alone), "fp8" or "w8a8": what 8 bit means for an engine, with these kernels.
std::string eight_bit_kind(const cost::PricingContext& context, const PlacedEngine& engine);

/// What tells one checkpoint of a model from another: bitwidths, and what 8 of them mean.
std::string checkpoint_of(const cost::PricingContext& context, const PlacedEngine& engine);

/// One end of a transfer of keys and values.
struct TransferEnd {
  std::string checkpoint;
  std::int32_t kv_bitwidth = 16;
  std::int64_t degree = 1, num_stages = 1;
};
/// Why a runtime cannot hand keys and values from one engine to another; empty where it can.
/// Whatever runs them, both read the same KV cache; vLLM's NixlConnector wants one checkpoint, and
/// degrees of which one divides the other (docs/features/nixl_connector_compatibility.md); stages
/// it leaves out.
std::string transfer_obstacle(Runtime runtime, const TransferEnd& from, const TransferEnd& to);

}  // namespace tessera::solver
