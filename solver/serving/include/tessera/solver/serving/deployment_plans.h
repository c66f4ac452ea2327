#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/files.h"
#include "tessera/solver/plan/plan.h"

namespace tessera::solver {

/// How a server is told to use its devices, in vLLM's words.
struct DeploymentShape {
  std::int64_t tensor_parallel = 1, pipeline_parallel = 1;
  std::optional<std::int64_t> replicas =
      std::nullopt;                            ///< absent: as many as there are devices for
  std::vector<std::int32_t> bitwidths = {16};  ///< of all layers, or of each
};

/// The problem of serving a model on a cluster with nothing left to choose: the kernel set by name,
/// or "auto" for the best that suits the devices (recommended_kernel_sets), with the profiles that
/// price them. Its workload is one request with a prompt and an output of 1024 tokens, or half the
/// model's context each; its indicator says nothing of quality.
Problem deployment_problem(ModelShape model, Cluster cluster,
                           const std::vector<std::int32_t>& bitwidths, std::int32_t kv_bitwidth,
                           const std::string& kernel_set, const DataFolders& folders);

/// One plan for each replica, `devices` set in each: `problem` on the replica's devices, one
/// request at a time, cut as vLLM cuts it. Tensor-parallel groups are consecutive devices of a type
/// on a node; pipelines are consecutive groups, of one node as far as they go. Layers are spread
/// evenly, the rest one each from the stage before the last backwards (vllm/distributed/utils.py,
/// get_pp_indices). Planner "manual"; plans pass check_plan. `join_replicas` makes one plan of
/// them.
/// @throws Error{invalid_argument} naming the field: a degree that does not cut the model, fewer
/// devices than asked for, more stages than layers, a bitwidth without a kernel, and a model that
/// does not fit, with bytes.
std::vector<PipelinePlan> deployment_plans(const Problem& problem, const DeploymentShape& shape);

/// Layers of each stage.
std::vector<std::int64_t> vllm_layer_split(std::int64_t num_layers, std::int64_t num_stages);

}  // namespace tessera::solver
