#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/cluster.h"

/// What an engine may be: a shape on devices of one type, with bitwidths and limits.
namespace tessera::solver {

/// The devices of a cluster that are of one type, in the order in which they stand there.
struct DeviceType {
  struct OnNode {
    std::size_t node_index = 0;
    std::vector<std::size_t> devices;  ///< into the cluster's
  };

  std::string name;
  std::vector<OnNode> nodes;
  std::int64_t count = 0;
  std::optional<double> price_usd_per_h;
  double compute_capability = 0;

  std::int64_t widest() const;  ///< most devices on one node
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
};

/// Which devices of a cluster are taken.
using UsedDevices = std::vector<bool>;

/// Devices for `count` engines of a configuration's shape, ascending, of those that are not used;
/// absent where there is no room. Groups stay on a node, pipelines on one as far as they go.
std::optional<std::vector<std::size_t>> devices_for(const Configuration& configuration,
                                                    std::int64_t count, const UsedDevices& used);

/// How many engines of a configuration's shape its type has room for.
std::int64_t capacity_of(const Configuration& configuration);

}  // namespace tessera::solver
