#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/cluster.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/placement.h"
#include "tessera/cost/group_split.h"

namespace tessera::solver {

/// How engines of one kind are told to use devices, in vLLM's words.
struct DeploymentShape {
  std::int64_t tensor_parallel = 1, pipeline_parallel = 1;
  cost::GroupSplit split = {};
  std::optional<std::int64_t> replicas =
      std::nullopt;                            ///< absent: as many as there are devices for
  std::vector<std::int32_t> bitwidths = {16};  ///< of all layers, or of each
  std::int32_t kv_bitwidth = 16;
  EngineRole role = EngineRole::mixed;
  std::vector<std::string> devices = {};  ///< the types that it is for; empty: any
  /// Of each stage; empty: as vLLM spreads them.
  std::vector<std::int64_t> stage_layers = {};
};

/// Layers of each stage as vLLM spreads them: evenly, the rest one each from the stage before the
/// last backwards (vllm/distributed/utils.py, get_pp_indices).
std::vector<std::int64_t> vllm_layer_split(std::int64_t num_layers, std::int64_t num_stages);

/// Engines of these shapes beside each other, each on devices that those before leave. Groups are
/// consecutive devices of a type on a node, or where no node has as many of one, of those of its
/// types that share a backend: equal shards, so as fast as the slowest; pipelines are consecutive
/// groups, of one node as far as they go, then of what nodes leave over.
/// @return nothing where there are too few devices
/// @throws Error{invalid_argument | out_of_range} naming the field: a degree that does not cut the
/// model, more stages than layers, bitwidths that are neither one nor one for each layer, layers of
/// stages that are not all layers
std::optional<Placement> try_place(const ModelShape& model, const Cluster& cluster,
                                   const std::vector<DeploymentShape>& shapes);

/// The same of one shape; too few devices are an error with the numbers.
Placement place(const ModelShape& model, const Cluster& cluster, const DeploymentShape& shape);

/// Engines of a shape that a cluster has room for, whatever their number is to be.
std::int64_t room_for(const Cluster& cluster, const DeploymentShape& shape);

}  // namespace tessera::solver
