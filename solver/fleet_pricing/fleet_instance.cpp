#include "fleet_instance.h"

#include <fmt/format.h>

#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tessera/core/error.h"

namespace tessera::solver {
namespace {

/// Of each class's devices, the name that its type has in the instance.
using TypeNames = std::vector<std::vector<std::string>>;

/// Devices of one name cost the same in an instance: those that cost something else in another
/// class are a type of that class.
TypeNames add_nodes(const std::vector<NodeKind>& nodes, FleetInstance& instance) {
  std::map<std::string, double> prices;
  TypeNames names;
  for (const NodeKind& kind : nodes) {
    NodeClass its;
    its.name = kind.name;
    its.count = kind.count;
    its.usd_per_h = kind.usd_per_h.value_or(0);
    std::vector<std::string>& own = names.emplace_back();
    for (std::size_t i = 0; i < kind.node->devices.size(); ++i) {
      std::string type = kind.node->devices[i].device.name;
      const double price = kind.device_usd_per_h(i).value_or(0);
      const auto known = prices.find(type);
      if (known != prices.end() && known->second != price) {
        type += fmt::format(" of {}", its.name);
      }
      if (prices.try_emplace(type, price).second) instance.device_types.push_back({type, price});
      ++its.devices[type];
      own.push_back(std::move(type));
    }
    instance.node_classes.push_back(std::move(its));
  }
  return names;
}

void add_constraints(const FleetRequest& request, FleetInstance& instance) {
  instance.constraints = request.constraints;
  for (std::size_t m = 0; m < request.models.size(); ++m) {
    const NamedModel& model = request.models[m];
    FleetConstraint own{.model = m, .min_nodes = model.min_nodes};
    if (model.min_replicas > 0) own.min_replicas = model.min_replicas;
    own.max_gpus = model.max_gpus;
    if (own.min_nodes || own.min_replicas || own.max_gpus) instance.constraints.push_back(own);
  }
}

/// The placements of what runs around a fleet, on the nodes and of the columns of its instance;
/// what these do not have is left out and counted.
std::vector<FleetPlacement> around_of(const FleetRequest& request, const FleetInstance& instance,
                                      std::int64_t& num_leaving) {
  if (request.around.empty()) return {};
  struct Place {
    std::size_t node_class = 0;
    std::int64_t node = 0;
  };
  std::map<std::string, Place> places;
  std::int64_t first = 0;
  for (std::size_t c = 0; c < request.nodes.size(); ++c) {
    for (std::int64_t i = 0; i < request.nodes[c].count; ++i) {
      places.emplace(request.nodes[c].node_name(i), Place{c, first + i});
    }
    first += request.nodes[c].count;
  }
  std::map<std::tuple<std::string, std::string, std::size_t>, std::size_t> columns;
  for (std::size_t c = 0; c < instance.columns.size(); ++c) {
    const Column& column = instance.columns[c];
    columns.emplace(
        std::tuple{instance.models[column.model].name, column.label, *column.node_class}, c);
  }
  const auto known = [&](const RunningReplicas& replicas) -> std::optional<Replica> {
    Replica replica;
    std::size_t node_class = 0;
    for (const std::string& name : replicas.node_names) {
      const auto place = places.find(name);
      if (place == places.end()) return std::nullopt;
      node_class = place->second.node_class;
      replica.nodes.push_back(place->second.node);
    }
    const auto column = columns.find({replicas.model, replicas.label, node_class});
    if (column == columns.end()) return std::nullopt;
    replica.column = column->second;
    const auto wanted = static_cast<std::size_t>(instance.columns[replica.column].nodes);
    if (replica.nodes.size() != wanted) return std::nullopt;
    return replica;
  };
  std::vector<FleetPlacement> around;
  for (const auto& running : request.around) {
    FleetPlacement& placement = around.emplace_back();
    for (const RunningReplicas& replicas : running) {
      const std::optional<Replica> replica = known(replicas);
      if (replica) {
        placement.insert(placement.end(), static_cast<std::size_t>(replicas.count), *replica);
      } else {
        num_leaving += replicas.count;
      }
    }
  }
  return around;
}

}  // namespace

void check_request(const FleetRequest& request, const std::string& path) {
  if (request.nodes.empty()) refuse(path, "give a cluster, or nodes to rent");
  if (request.models.empty()) refuse(path + ".models", "the list is empty");
  for (std::size_t m = 0; m < request.models.size(); ++m) {
    if (request.models[m].classes.empty()) {
      refuse(fmt::format("{}.models[{}].classes", path, m + 1), "the list is empty");
    }
    if (request.models[m].pools && request.models[m].classes.size() > 1) {
      refuse(fmt::format("{}.models[{}].pools", path, m + 1),
             "what a pair of pools sustains is known of one class of requests; leave out pools, or "
             "give traffic in the place of classes");
    }
  }
  if (request.switch_usd > 0 && request.objective != FleetObjective::cost) {
    refuse(path + ".switch_usd", "money counts in objective cost, this one is {}",
           name_of(request.objective));
  }
  if (request.objective != FleetObjective::cost && !request.max_usd_per_h) return;
  for (const NodeKind& kind : request.nodes) {
    if (kind.usd_per_h) continue;
    refuse(path, "no price of {} is known; give usd_per_h, or a device's price_usd_per_h",
           kind.name);
  }
}

FleetInstance instance_of(const FleetRequest& request, const FleetColumns& columns,
                          std::int64_t& num_leaving) {
  FleetInstance instance;
  instance.objective = request.objective;
  instance.billing = request.billing;
  instance.reserve_nodes = request.reserve_nodes;
  instance.max_usd_per_h = request.max_usd_per_h;
  const TypeNames types = add_nodes(request.nodes, instance);
  for (std::size_t m = 0; m < request.models.size(); ++m) {
    const NamedModel& model = request.models[m];
    const auto other = request.demand_per_s.find(model.name);
    const bool is_other = other != request.demand_per_s.end();
    std::vector<double> demand = columns.demand_per_s(m);
    if (is_other) {
      // Classes of requests stay in proportion.
      const double all = std::accumulate(demand.begin(), demand.end(), 0.0);
      for (double& each : demand)
        each = demand.size() == 1 ? other->second : each / all * other->second;
    }
    instance.models.push_back({model.name, std::move(demand), model.weight});
  }
  for (const FleetColumn& each : columns.columns()) {
    Column column;
    column.model = each.model;
    for (std::size_t i = 0; i < each.devices.size(); ++i) {
      if (each.devices[i] > 0) ++column.devices[types[each.node_class][i]];
    }
    column.rate = columns.engine_of(each).most_per_s();
    column.nodes = each.nodes;
    column.node_class = each.node_class;
    column.label = columns.engine_of(each).name();
    instance.columns.push_back(std::move(column));
  }
  add_constraints(request, instance);
  instance.around = around_of(request, instance, num_leaving);
  instance.switch_usd = request.switch_usd;
  instance.hours = request.hours;
  return instance;
}

}  // namespace tessera::solver
