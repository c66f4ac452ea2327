#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/placement.h"
#include "tessera/cost/stage_price.h"
#include "tessera/solver/plan/plan.h"
#include "tessera/solver/problem/runtime_kernels.h"

/// What of a placement a runtime cannot launch. Reasons are sentences without full stops; none
/// where it can. `tessera` runs all that has a price.
namespace tessera::solver {

/// Of one engine.
std::vector<std::string> launch_obstacles(Runtime runtime, const cost::PricingContext& context,
                                          const Placement& placement, std::size_t engine);

/// Of all engines of a plan, each with its own kernel set.
std::vector<std::string> launch_obstacles(Runtime runtime, const Plan& plan,
                                          const Placement& placement);

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
