#pragma once

#include <cstdint>
#include <string>

#include "tessera/core/json_fwd.h"

namespace tessera::solver {

/// Shares of one kind of tensor on the three levels of memory; they sum to 1.
struct TierRatios {
  double device = 1, host = 0, disk = 0;

  friend bool operator==(const TierRatios&, const TierRatios&) = default;
};

/// Where a stage of an offloading plan keeps what it needs.
struct StageOffload {
  TierRatios weights, kv_cache, activations;
  double host_bytes = 0;  ///< peak of either phase
  double disk_bytes = 0;  ///< peak

  friend bool operator==(const StageOffload&, const StageOffload&) = default;
};

/// What an offloading plan decides or assumes as a whole.
struct PlanOffload {
  std::int64_t gpu_batch_size = 1;  ///< requests computed at once; a micro-batch consists of such
  double host_memory_ratio = 0.8;   ///< share of a node's memory that the plan may use
  double host_attention_bytes_per_s =
      12.3e9;  ///< KV cache that a node's processors attend to, all its stages together

  friend bool operator==(const PlanOffload&, const PlanOffload&) = default;
};

Json to_json(const StageOffload& offload);
Json to_json(const PlanOffload& offload);
/// What is absent stays on the device; bytes are what the plan claims. @throws
/// Error{invalid_argument | out_of_range} naming the field.
StageOffload stage_offload_from_json(const Json& json, const std::string& path);
PlanOffload plan_offload_from_json(const Json& json, const std::string& path);

}  // namespace tessera::solver
