#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/cluster.h"
#include "tessera/solver/serving/place.h"

/// What an engine may be: a shape on devices of one type or over unlike ones, with bitwidths and
/// limits.
namespace tessera::solver {

/// Tokens of a step that servers on any GPU have where nobody says (vllm/engine/arg_utils.py).
inline constexpr std::int64_t kUsualTokens = 2048;

/// The devices of a cluster that are of one type, or of several for engines over them.
struct TypeDevices {
  std::string name;  ///< "A100-40G+T4-16G" of several
  std::vector<std::string> types;
  std::int64_t count = 0;
  std::vector<std::int64_t> on_node;  ///< [node] how many it has
  std::int64_t widest() const { return *std::max_element(on_node.begin(), on_node.end()); }
  std::optional<double> price_usd_per_h;
  double compute_capability = 0;
  std::int64_t usual_tokens = kUsualTokens;  ///< of a step on this one
};

using DeviceTypes = std::vector<std::shared_ptr<const TypeDevices>>;

/// In the order in which they appear.
DeviceTypes device_types(const Cluster& cluster);

/// Several as one. A device costs what they do on average.
std::shared_ptr<const TypeDevices> joined(const DeviceTypes& types);

/// An engine that may be. A plain value: whoever looks for deployments prices, compares and counts
/// these, whatever the objective.
struct Configuration {
  std::shared_ptr<const TypeDevices> type;
  std::int64_t tensor_parallel = 1, pipeline_parallel = 1;
  cost::GroupSplit split = {};
  /// Of each stage, where devices are unlike; empty: as vLLM spreads them.
  std::vector<std::int64_t> stage_layers = {};
  std::int32_t bitwidth = 16, kv_bitwidth = 16;
  std::int64_t max_num_seqs = 256, max_num_batched_tokens = 8192;

  bool is_unlike() const { return type->types.size() > 1; }
  std::int64_t gpus() const { return tensor_parallel * pipeline_parallel; }
  /// Money for `count` engines (USD/h); absent without a price.
  std::optional<double> usd_per_h(std::int64_t count) const;
  /// "2xL4 x 2 stages, 8 bits, KV cache 8"
  std::string name() const;
  /// "L4 TP2PP2"
  std::string shape() const;
  /// What puts engines of it on a cluster: as many as there is room for where `count` is absent.
  DeploymentShape placed(std::optional<std::int64_t> count = std::nullopt,
                         EngineRole role = EngineRole::mixed) const;
};

}  // namespace tessera::solver
