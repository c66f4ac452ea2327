#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/cluster.h"

/// Nodes of a fleet, alike ones as one.
namespace tessera::solver {

/// Nodes with the same devices in the same order, and the same links and prices.
struct NodeKind {
  std::string name;                     ///< "8xH100-80G"
  std::shared_ptr<const Cluster> node;  ///< one of them
  std::int64_t count = 0;
  /// What one of them costs; absent: of a device no price is known.
  std::optional<double> usd_per_h;
  bool is_rented = false, is_spot = false;
  std::vector<std::string> names = {};  ///< of each; empty: numbered

  /// Of its node `index`.
  std::string node_name(std::int64_t index) const;
  std::int64_t num_devices() const { return static_cast<std::int64_t>(node->devices.size()); }
  /// What a device of it costs (USD/h): the node's price is shared out as list prices are.
  std::optional<double> device_usd_per_h(std::size_t device) const;
};

/// Gives kinds of one name names of their own: "4xL4", "4xL4 (2)".
void name_apart(std::vector<NodeKind>& kinds);

/// The classes of a cluster's nodes, in the order in which they appear, each with a name.
std::vector<NodeKind> node_kinds(const Cluster& cluster);

/// The class of nodes like the only one of a cluster. @throws Error{invalid_argument} where there
/// are several; `path` names the cluster
NodeKind node_kind_of(const Cluster& node, std::int64_t count, const std::string& path);

/// So many nodes like the one, joined by its network.
Cluster copies_of(const Cluster& node, std::int64_t count);

}  // namespace tessera::solver
