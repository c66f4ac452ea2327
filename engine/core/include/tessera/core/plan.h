#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/json_fwd.h"
#include "tessera/core/provenance.h"

namespace tessera {

enum class PlanStatus { optimal, feasible };

std::string_view to_string(PlanStatus status);

struct StageMemory {
  double weight_bytes =
      0;  ///< decoder layers at their bitwidths, with quantisation metadata and norms
  double kv_cache_bytes = 0;    ///< whole batch, full length
  double activation_bytes = 0;  ///< peak of either phase
  double embedding_bytes =
      0;  ///< token and position embeddings, LM head, where this stage holds them
  double reserve_bytes = 0;   ///< runtime, allocator
  double total_bytes = 0;     ///< sum of the above
  double capacity_bytes = 0;  ///< of the device

  double usable_bytes() const { return capacity_bytes - reserve_bytes; }
};

/// Shares of one kind of tensor on the three levels of memory; they sum to 1.
struct TierRatios {
  double device = 1, host = 0, disk = 0;
};

/// Where a stage of an offloading plan keeps what it needs.
struct StageOffload {
  TierRatios weights, kv_cache, activations;
  double host_bytes = 0;  ///< peak of either phase
  double disk_bytes = 0;  ///< peak
};

/// What an offloading plan decides or assumes as a whole.
struct PlanOffload {
  std::int64_t gpu_batch_size = 1;  ///< requests computed at once; a micro-batch consists of such
  double host_memory_ratio = 0.8;   ///< share of a node's memory that the plan may use
  double host_attention_bytes_per_s =
      12.3e9;  ///< KV cache that a node's processors attend to, all its stages together
};

struct PlanStage {
  std::string device;
  std::string node;
  std::int64_t device_index = 0;  ///< into the cluster's devices
  std::int64_t first_layer = 0;
  std::int64_t num_layers = 0;
  std::vector<std::int32_t> bitwidths;  ///< [num_layers]
  double prefill_s = 0;  ///< one prefill unit (a micro-batch's chunk, mean over chunks)
  double decode_s = 0;   ///< one decode step of one micro-batch
  StageMemory memory;
  std::optional<StageOffload> offload;  ///< in every stage of an offloading plan, and only there
};

/// One way to settle what a problem left open (tensor parallelism, KV bitwidth), and what came of
/// it.
struct PlanCandidate {
  std::string name;  ///< "2 of 2xT4-16G, KV 8 bit"
  std::string
      status;  ///< "optimal", "feasible", or why there is no plan: "infeasible", "cutoff" (none
               ///< better than that of an earlier candidate), "time_limit", "interrupted"
  std::optional<double> objective;  ///< s
  std::optional<double> latency_s;
  std::optional<double> bound;  ///< s
  std::string message;          ///< where there is no plan
};

/// A plan as scripts see it and as files keep it. `problem` is the whole problem, so that a saved
/// plan can be checked and simulated on its own.
struct Plan {
  PlanStatus status = PlanStatus::feasible;
  std::string planner;
  double objective = 0;  ///< s (with theta * omega inside)
  std::optional<double>
      bound;  ///< no plan of the searched space can be below it; absent: none was proven
  std::optional<double> gap;  ///< (objective - bound) / |objective|
  double solve_s = 0;
  std::vector<std::string> device_order;
  std::int64_t prefill_micro_batch_size = 1;
  std::int64_t decode_micro_batch_size = 1;
  double latency_s = 0;         ///< end to end, by the `steady` model whatever the objective
  double throughput_tok_s = 0;  ///< output tokens over latency_s
  double omega = 0;             ///< in the problem's units (normalised unless theta_unit says raw)
  double mean_bitwidth = 0;
  Provenance provenance = Provenance::modelled;
  std::optional<double> error;  ///< held-out relative error of the latency
  std::vector<PlanStage> stages;
  std::optional<PlanOffload> offload;  ///< priced by FlexGen's cost model; absent: nothing leaves
                                       ///< the devices
  std::vector<std::string> notes;      ///< fallbacks taken, defaults in force that matter
  std::vector<PlanCandidate> candidates;  ///< of a problem with open choices; else empty

  /// Pipelines that share the batch, each a plan of its own part of the cluster; empty where there
  /// is one. A plan with replicas has no stages: its objective, latency and omega are the worst of
  /// theirs, its throughput is that of the whole batch, its micro-batch sizes are the slowest
  /// replica's.
  std::vector<Plan> replicas;
  std::vector<std::int64_t> devices;  ///< of a replica: its devices in the whole cluster, ascending
  std::shared_ptr<const Json> problem;  ///< never null in a finished plan
};

inline constexpr int kPlanSchemaVersion = 1;

Json to_json(const StageOffload& offload);
Json to_json(const PlanOffload& offload);
/// What is absent stays on the device; bytes are what the plan claims. @throws
/// Error{invalid_argument | out_of_range} naming the field.
StageOffload stage_offload_from_json(const Json& json, const std::string& path);
PlanOffload plan_offload_from_json(const Json& json, const std::string& path);

Json to_json(const Plan& plan);
/// @throws Error{unsupported} for another schema version, Error{invalid_argument} naming file and
/// field.
Plan plan_from_json(const Json& json, const std::string& path);

}  // namespace tessera
