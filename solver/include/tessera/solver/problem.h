#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/cluster.h"
#include "tessera/core/indicator.h"
#include "tessera/core/json_fwd.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/plan.h"
#include "tessera/core/workload.h"
#include "tessera/cost/kernel_set.h"
#include "tessera/cost/memory.h"
#include "tessera/cost/profile.h"
#include "tessera/sim/pipeline.h"
#include "tessera/solver/constraint.h"
#include "tessera/solver/mesh.h"
#include "tessera/solver/planner.h"

namespace tessera::solver {

enum class ThetaUnit {
  s_per_normalised_omega,  ///< omega is scaled so that a model at 4 bits throughout has W = 1
  ms_per_raw_omega,        ///< as the papers print theta
};
std::string_view to_string(ThetaUnit unit);
std::string_view to_string(Objective objective);

/// A model on a cluster under a workload, with the costs that price it.
struct ServingProblem {
  ModelShape model;
  Cluster cluster;
  Workload workload;
  std::vector<std::int32_t> bitwidths;  ///< ascending, distinct
  Indicator indicator;
  cost::KernelSet kernel_set;
  /// What is known about the speed of the cluster's devices; those without one are priced by the
  /// roofline.
  std::vector<std::shared_ptr<const cost::Profile>> profiles;
  bool with_profiles = true;  ///< false: the script wants the roofline alone
  cost::MemoryPreset memory = cost::MemoryPreset::physical;
  std::int32_t kv_bitwidth = 16;
  /// Quality lost by a KV cache of a bitwidth, [bitwidth][num_layers], in the indicator's units.
  /// What is absent has the default of `kv_omega`.
  std::map<std::int32_t, std::vector<double>> kv_omega;
  Mesh mesh;  ///< tensor-parallel groups; empty: every device on its own

  /// Choices that are still open: a problem with several is planned once for each.
  std::vector<std::int32_t> tensor_parallel = {1};  ///< degrees that a mesh may have, ascending
  std::vector<std::int32_t> kv_bitwidths = {16};    ///< as given, the first being `kv_bitwidth`
};

/// What is to be planned: a serving problem or an abstract instance file, and what counts as good.
struct Problem {
  std::optional<ServingProblem> serving;  ///< absent: `instance`
  std::shared_ptr<const Json> instance;   ///< content of an instance file
  std::string instance_path;              ///< where it was read, for messages
  Objective objective = Objective::steady;
  double theta = 1;
  ThetaUnit theta_unit = ThetaUnit::s_per_normalised_omega;
  std::optional<double> max_omega;  ///< in the units of the plan's omega
  std::string quality_at_least;  ///< baseline whose omega is the floor; resolved by the Lua library
  bool allow_empty_stage = false;
  std::vector<Constraint> constraints;  ///< names differ
};

/// How the memory of the problem's stages is counted.
cost::MemoryQuery memory_query(const ServingProblem& serving);

Json to_json(const Problem& problem);
Problem problem_from_json(const Json& json, const std::string& path);

/// The instance that solvers see. Costs of a micro-batch size are computed when first asked for.
/// @throws Error{invalid_argument} for an indicator that lacks a layer or bitwidth, and what
/// `resolve` throws for a constraint that does not fit.
Instance lower(const Problem& problem);

/// Groups for a list of device names ("T4-16G", "T4-16G@node" where the node matters, "2xT4-16G"
/// for a tensor-parallel group).
/// @throws Error{not_found | invalid_argument} naming the position, what is left, and the nearest
/// names.
std::vector<std::size_t> order_from_names(const Instance& instance,
                                          const std::vector<std::string>& names);

/// The plan as scripts see it. @param file to_json(problem), where it is at hand.
Plan build_plan(const Problem& problem, const Instance& instance, const PlanResult& result,
                const std::string& planner, std::shared_ptr<const Json> file = nullptr);

/// What the KV cache's bitwidth adds to the omega of every plan, in the plan's units; 0 for an
/// instance file.
double total_kv_omega(const Problem& problem);

/// Plans of parts of a problem's cluster, `devices` set in each, as one plan that runs them side by
/// side. Status, bound and gap are left to whoever searched.
Plan join_replicas(const Problem& problem, std::vector<Plan> replicas, const std::string& planner);

/// Reads the decision back from a plan. @throws Error{invalid_argument} when devices or bitwidths
/// do not exist in the problem.
Candidate candidate_of(const Instance& instance, const Plan& plan);

/// Everything about a plan, from scratch: structure, memory, kernels, quality floor, and that the
/// printed numbers are what the models say.
std::optional<Violation> check_plan(const Plan& plan);

/// The pipeline of a plan with each unit's own time: real micro-batch sizes, each chunk's and each
/// round's own context.
sim::Pipeline pipeline_of(const Plan& plan);

}  // namespace tessera::solver
