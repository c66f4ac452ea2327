#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/cluster.h"
#include "tessera/solver/serving/place.h"

/// What an engine may be: a shape on devices of one type, with bitwidths and limits.
namespace tessera::solver {

/// The devices of a cluster that are of one type.
struct DeviceType {
  std::string name;
  std::int64_t count = 0;
  std::int64_t widest = 0;  ///< most devices on one node
  std::optional<double> price_usd_per_h;
  double compute_capability = 0;
};

/// In the order in which they appear.
std::vector<std::shared_ptr<const DeviceType>> device_types(const Cluster& cluster);

/// An engine that may be. A plain value: whoever looks for deployments prices, compares and counts
/// these, whatever the objective.
struct Configuration {
  std::shared_ptr<const DeviceType> type;
  std::int64_t tensor_parallel = 1, pipeline_parallel = 1;
  std::int32_t bitwidth = 16, kv_bitwidth = 16;
  std::int64_t max_num_seqs = 256, max_num_batched_tokens = 8192;

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
