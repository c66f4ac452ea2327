#include "tessera/solver/fleet/transition.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "serve.h"

namespace tessera::solver {
namespace {

class Way {
 public:
  Way(const FleetInstance& instance, const FleetPlacement& from) : instance_(instance) {
    std::int64_t first = 0;
    for (const NodeClass& its : instance.node_classes) {
      first_node_.push_back(first);
      first += its.count;
    }
    copies_.resize(instance.columns.size(), 0);
    for (const Replica& replica : from) put(replica, 1);
    for (std::size_t m = 0; m < instance.models.size(); ++m) {
      found_.least_scale.push_back(scale_of(m));
    }
  }

  FleetTransition go(FleetSwitches change) {
    sort_by_size(change.starts);
    start_where_there_is_room(change.starts);
    while (!change.starts.empty()) {
      make_room_for(change.starts.front(), change.stops);
      start_where_there_is_room(change.starts);
    }
    for (const Replica& replica : change.stops) step(false, replica);
    found_.full_nodes.assign(full_.begin(), full_.end());
    return std::move(found_);
  }

 private:
  std::int64_t size_of(const Replica& replica) const {
    const Column& column = instance_.columns[replica.column];
    return column.nodes * 10'000 +
           std::accumulate(column.devices.begin(), column.devices.end(), std::int64_t{0},
                           [](std::int64_t sum, const auto& item) { return sum + item.second; });
  }
  void sort_by_size(FleetPlacement& replicas) const {
    std::stable_sort(replicas.begin(), replicas.end(),
                     [&](const Replica& a, const Replica& b) { return size_of(a) > size_of(b); });
  }

  const NodeClass& class_of(std::int64_t node) const {
    const auto after = std::upper_bound(first_node_.begin(), first_node_.end(), node);
    return instance_.node_classes[static_cast<std::size_t>(after - first_node_.begin()) - 1];
  }
  /// What a replica takes of a node of its own.
  const DeviceCounts& taken_by(const Replica& replica, std::int64_t node) const {
    const Column& column = instance_.columns[replica.column];
    return column.nodes > 1 ? class_of(node).devices : column.devices;
  }

  void put(const Replica& replica, int sign) {
    for (const std::int64_t node : replica.nodes) {
      for (const auto& [type, count] : taken_by(replica, node)) taken_[node][type] += sign * count;
    }
    copies_[replica.column] += sign;
  }

  bool has_room(const Replica& replica) {
    return std::all_of(replica.nodes.begin(), replica.nodes.end(), [&](std::int64_t node) {
      const DeviceCounts& there = class_of(node).devices;
      DeviceCounts& taken = taken_[node];
      const DeviceCounts& wanted = taken_by(replica, node);
      return std::all_of(wanted.begin(), wanted.end(), [&](const auto& item) {
        const auto has = there.find(item.first);
        return item.second == 0 ||
               (has != there.end() && taken[item.first] + item.second <= has->second);
      });
    });
  }

  double scale_of(std::size_t model) const {
    std::vector<Servers> servers;
    for (std::size_t c = 0; c < copies_.size(); ++c) {
      if (instance_.columns[c].model != model || copies_[c] == 0) continue;
      servers.push_back({static_cast<double>(copies_[c]), &instance_.columns[c].rate});
    }
    return largest_multiple(servers, instance_.models[model].demand);
  }

  void step(bool starts, const Replica& replica) {
    put(replica, starts ? 1 : -1);
    found_.steps.push_back({starts, replica});
    if (starts) return;
    const std::size_t model = instance_.columns[replica.column].model;
    found_.least_scale[model] = std::min(found_.least_scale[model], scale_of(model));
  }

  void start_where_there_is_room(FleetPlacement& starts) {
    std::erase_if(starts, [&](const Replica& replica) {
      if (!has_room(replica)) return false;
      step(true, replica);
      return true;
    });
  }

  /// Stops what goes anyway on the nodes of a replica, until that has room.
  void make_room_for(const Replica& replica, FleetPlacement& stops) {
    full_.insert(replica.nodes.begin(), replica.nodes.end());
    const std::set<std::int64_t> wanted(replica.nodes.begin(), replica.nodes.end());
    std::erase_if(stops, [&](const Replica& old) {
      const bool is_there = std::any_of(old.nodes.begin(), old.nodes.end(),
                                        [&](std::int64_t node) { return wanted.count(node) != 0; });
      if (!is_there || has_room(replica)) return false;
      step(false, old);
      return true;
    });
  }

  const FleetInstance& instance_;
  std::vector<std::int64_t> first_node_;
  std::map<std::int64_t, DeviceCounts> taken_;
  std::vector<std::int64_t> copies_;  ///< by column
  std::set<std::int64_t> full_;
  FleetTransition found_;
};

}  // namespace

FleetTransition transition(const FleetInstance& instance, const FleetPlacement& from,
                           const FleetPlacement& to) {
  return Way(instance, from).go(switches(from, to));
}

}  // namespace tessera::solver
