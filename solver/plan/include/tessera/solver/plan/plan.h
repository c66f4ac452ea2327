#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/core/json_fwd.h"
#include "tessera/core/provenance.h"
#include "tessera/solver/offload/offload_shares.h"
#include "tessera/solver/problem/lowered_problem.h"

namespace tessera::solver {

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

  friend bool operator==(const StageMemory&, const StageMemory&) = default;
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

  friend bool operator==(const PlanStage&, const PlanStage&) = default;
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

  friend bool operator==(const PlanCandidate&, const PlanCandidate&) = default;
};

/// What every plan says of itself.
struct PlanSummary {
  explicit PlanSummary(LoweredProblem problem_of_plan) : problem(std::move(problem_of_plan)) {}

  LoweredProblem problem;
  PlanStatus status = PlanStatus::feasible;
  std::string planner;
  double objective = 0;  ///< s (with theta * omega inside)
  std::optional<double>
      bound;  ///< no plan of the searched space can be below it; absent: none was proven
  std::optional<double> gap;  ///< (objective - bound) / |objective|
  double solve_s = 0;
  double latency_s = 0;         ///< end to end, by the `steady` model whatever the objective
  double throughput_tok_s = 0;  ///< output tokens over latency_s
  double omega = 0;             ///< in the problem's units (normalised unless theta_unit says raw)
  double mean_bitwidth = 0;
  Provenance provenance = Provenance::modelled;
  std::optional<double> error;            ///< held-out relative error of the latency
  std::vector<std::string> notes;         ///< fallbacks taken, defaults in force that matter
  std::vector<PlanCandidate> candidates;  ///< of a problem with open choices; else empty

  friend bool operator==(const PlanSummary&, const PlanSummary&) = default;
};

/// One pipeline.
struct PipelinePlan : PlanSummary {
  using PlanSummary::PlanSummary;

  std::vector<std::string> device_order;
  std::int64_t prefill_micro_batch_size = 1;
  std::int64_t decode_micro_batch_size = 1;
  std::vector<PlanStage> stages;
  std::optional<PlanOffload> offload;  ///< priced by FlexGen's cost model; absent: nothing leaves
                                       ///< the devices
  /// Of a replica: its devices in the whole cluster, ascending.
  std::optional<std::vector<std::int64_t>> devices;

  friend bool operator==(const PipelinePlan&, const PipelinePlan&) = default;
};

/// Pipelines that share the batch, each a plan of its own part of the cluster. Objective, latency
/// and omega are the worst of theirs, the throughput is that of the whole batch.
struct ReplicatedPlan : PlanSummary {
  ReplicatedPlan(PlanSummary summary, std::vector<PipelinePlan> plans)
      : PlanSummary(std::move(summary)), replicas(std::move(plans)) {}

  std::vector<PipelinePlan> replicas;  ///< one at least

  /// The first of those with the largest latency.
  const PipelinePlan& slowest() const;

  friend bool operator==(const ReplicatedPlan&, const ReplicatedPlan&) = default;
};

using Plan = std::variant<PipelinePlan, ReplicatedPlan>;

const PlanSummary& summary_of(const Plan& plan);
PlanSummary& summary_of(Plan& plan);

inline constexpr int kPlanSchemaVersion = 1;

/// As a file keeps it, the whole problem included, so that a saved plan can be checked and
/// simulated on its own.
Json to_json(const Plan& plan);
/// @throws Error{unsupported} for another schema version, Error{invalid_argument} naming file and
/// field.
Plan plan_from_json(const Json& json, const std::string& path);

}  // namespace tessera::solver
