#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tessera/core/cluster.h"
#include "tessera/core/indicator.h"
#include "tessera/core/json_fwd.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/workload.h"
#include "tessera/cost/kernel_set.h"
#include "tessera/cost/memory.h"
#include "tessera/cost/profile.h"
#include "tessera/solver/instance/instance.h"
#include "tessera/solver/problem/constraint.h"
#include "tessera/solver/problem/mesh.h"

namespace tessera::solver {

enum class ThetaUnit {
  s_per_normalised_omega,  ///< omega is scaled so that a model at 4 bits throughout has W = 1
  ms_per_raw_omega,        ///< as the papers print theta
};
std::string_view to_string(ThetaUnit unit);
std::string_view to_string(Objective objective);

/// A model on a cluster under a workload, with the costs that price it. Nothing is left to choose;
/// a problem with open choices is an OpenProblem.
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
  std::optional<Mesh> mesh;  ///< tensor-parallel groups; absent: every device on its own
};

/// An abstract instance, as its file has it.
struct InstanceFile {
  std::shared_ptr<const Json> content;
  std::string path;  ///< where it was read, for messages
};

/// What is to be planned, and what counts as good.
struct Problem {
  std::variant<ServingProblem, InstanceFile> given;
  Objective objective = Objective::steady;
  double theta = 1;
  ThetaUnit theta_unit = ThetaUnit::s_per_normalised_omega;
  std::optional<double> max_omega;              ///< in the units of the plan's omega
  std::optional<std::string> quality_at_least;  ///< baseline whose omega is to become `max_omega`
  bool allow_empty_stage = false;
  std::vector<Constraint> constraints;  ///< names differ

  /// Null for an instance file.
  const ServingProblem* serving() const { return std::get_if<ServingProblem>(&given); }
  ServingProblem* serving() { return std::get_if<ServingProblem>(&given); }
  /// Null for a serving problem.
  const InstanceFile* instance_file() const { return std::get_if<InstanceFile>(&given); }
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

/// What the KV cache's bitwidth adds to the omega of every plan, in the plan's units; 0 for an
/// instance file.
double total_kv_omega(const Problem& problem);

/// The devices of the cluster that each stage of an order runs on, the first of each group first.
std::vector<std::vector<std::size_t>> stage_members(const ServingProblem& serving,
                                                    const std::vector<std::size_t>& order);

}  // namespace tessera::solver
