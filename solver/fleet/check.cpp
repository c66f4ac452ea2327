#include "tessera/solver/fleet/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "losses.h"
#include "serve.h"
#include "tessera/core/text.h"

namespace tessera::solver {
namespace {

constexpr std::size_t kMaxViolations = 20;
constexpr double kSlack = 1e-9;  ///< of a demand or a budget, for the rounding of sums
/// The shares of several classes of requests come out of a linear programme.
constexpr double kSharesSlack = 1e-7;
/// Ways to lose nodes of a model with several classes that are tried one by one.
constexpr std::int64_t kMostLosses = 2000;

/// What so many nodes have together that have most of it, of groups of nodes: what one of them has,
/// and how many are so.
template <class Amount>
Amount sum_of_largest(std::vector<std::pair<Amount, std::int64_t>> groups, std::int64_t nodes) {
  std::sort(groups.rbegin(), groups.rend());
  Amount sum = 0;
  for (const auto& [amount, count] : groups) {
    const std::int64_t taken = std::min(nodes, count);
    sum += amount * static_cast<Amount>(taken);
    nodes -= taken;
  }
  return sum;
}

/// What a node runs.
struct NodeUse {
  DeviceCounts taken;
  std::map<std::size_t, std::int64_t> replicas;  ///< by column, those with a part on it
  bool whole = false;
};

class Checker {
 public:
  Checker(const FleetInstance& instance, const FleetPlacement& placement)
      : instance_(instance), placement_(placement) {
    for (const FleetDevice& type : instance.device_types) price_[type.name] = type.usd_per_h;
    std::int64_t first = 0;
    for (const NodeClass& c : instance.node_classes) {
      first_node_.push_back(first);
      first += c.count;
    }
    num_nodes_ = first;
    copies_.resize(instance.columns.size());
    check_.models.resize(instance.models.size());
  }

  FleetCheck run() {
    for (std::size_t i = 0; i < placement_.size(); ++i) place(i);
    add_up();
    for (std::size_t m = 0; m < instance_.models.size(); ++m) serve(m);
    check_constraints();
    for (const FleetPlacement& other : instance_.around) {
      check_.switched += switches(other, placement_).count();
    }
    set_objective();
    return std::move(check_);
  }

 private:
  template <class... Values>
  void violate(fmt::format_string<Values...> text, Values&&... values) {
    if (check_.violations.size() < kMaxViolations) {
      check_.violations.push_back(fmt::format(text, std::forward<Values>(values)...));
    }
  }

  const NodeClass& class_of(std::int64_t node) const {
    const auto after = std::upper_bound(first_node_.begin(), first_node_.end(), node);
    return instance_.node_classes[static_cast<std::size_t>(after - first_node_.begin()) - 1];
  }

  void place(std::size_t row) {
    const Replica& replica = placement_[row];
    if (replica.column >= instance_.columns.size()) {
      violate("replica {}: there is no column {}", row, replica.column);
      return;
    }
    const Column& column = instance_.columns[replica.column];
    if (static_cast<std::int64_t>(replica.nodes.size()) != column.nodes) {
      violate("replica {}: {} nodes where column {} takes {}", row, replica.nodes.size(),
              replica.column, column.nodes);
      return;
    }
    const std::set<std::int64_t> distinct(replica.nodes.begin(), replica.nodes.end());
    if (distinct.size() != replica.nodes.size() || *distinct.begin() < 0 ||
        *distinct.rbegin() >= num_nodes_) {
      violate("replica {}: its nodes are not {} of nodes 0 to {}", row, column.nodes,
              num_nodes_ - 1);
      return;
    }
    ++copies_[replica.column];
    const NodeClass& first = class_of(replica.nodes.front());
    for (const std::int64_t node : replica.nodes) take(row, column, node, first);
  }

  void take(std::size_t row, const Column& column, std::int64_t node, const NodeClass& first) {
    const NodeClass& c = class_of(node);
    if (&c != &first) violate("replica {}: its nodes are of {} and {}", row, first.name, c.name);
    if (column.node_class && &c != &instance_.node_classes[*column.node_class]) {
      violate("replica {}: node {} is of {}, not {}", row, node, quote(c.name),
              quote(instance_.node_classes[*column.node_class].name));
    }
    NodeUse& use = uses_[node];
    ++use.replicas[placement_[row].column];
    const bool whole = column.nodes > 1;
    if (use.whole || (whole && !use.taken.empty())) {
      violate("replica {}: node {} is shared with a replica over whole nodes", row, node);
    }
    use.whole = use.whole || whole;
    for (const auto& [type, count] : column.devices) {
      const auto has = c.devices.find(type);
      const std::int32_t there = has == c.devices.end() ? 0 : has->second;
      std::int32_t& taken = use.taken[type];
      taken += count;
      if (count > 0 && taken > there) {
        violate("node {} ({}) has {} x {}, its replicas take {}", node, c.name, there, type, taken);
      }
    }
    if (whole) use.taken = c.devices;
    add_to_model(check_.models[column.model], whole ? c.devices : column.devices, c);
  }

  /// What a part of a replica takes of a node.
  void add_to_model(FleetServed& served, const DeviceCounts& devices, const NodeClass& c) {
    const auto number = [](const DeviceCounts& counts) {
      return std::accumulate(counts.begin(), counts.end(), std::int64_t{0},
                             [](std::int64_t sum, const auto& item) { return sum + item.second; });
    };
    served.gpus += number(devices);
    if (instance_.billing == Billing::device) {
      for (const auto& [type, count] : devices) served.usd_per_h += count * price_[type];
    } else {
      const double all = static_cast<double>(number(c.devices));
      if (all > 0) served.usd_per_h += c.usd_per_h * static_cast<double>(number(devices)) / all;
    }
  }

  void add_up() {
    check_.nodes = static_cast<std::int64_t>(uses_.size());
    for (const auto& [node, use] : uses_) {
      const NodeClass& c = class_of(node);
      if (instance_.billing == Billing::node) check_.usd_per_h += c.usd_per_h;
      std::set<std::size_t> models;
      for (const auto& [column, count] : use.replicas)
        models.insert(instance_.columns[column].model);
      for (const std::size_t m : models) ++check_.models[m].nodes;
    }
    for (FleetServed& served : check_.models) {
      check_.gpus += served.gpus;
      if (instance_.billing == Billing::device) check_.usd_per_h += served.usd_per_h;
    }
    for (std::size_t c = 0; c < copies_.size(); ++c) {
      check_.models[instance_.columns[c].model].replicas += copies_[c];
    }
    const std::optional<double> budget = instance_.max_usd_per_h;
    if (budget && check_.usd_per_h > *budget * (1 + kSlack) + kSlack) {
      violate("it costs {} USD/h, the budget is {}", check_.usd_per_h, *budget);
    }
  }

  /// The multiple of a model's demand that is served when some replicas are lost.
  double multiple(std::size_t model, const std::map<std::size_t, std::int64_t>& lost) const {
    std::vector<Servers> servers;
    for (std::size_t c = 0; c < copies_.size(); ++c) {
      if (instance_.columns[c].model != model || copies_[c] == 0) continue;
      const auto gone = lost.find(c);
      const std::int64_t left = copies_[c] - (gone == lost.end() ? 0 : gone->second);
      servers.push_back({static_cast<double>(left), &instance_.columns[c].rate});
    }
    return largest_multiple(servers, instance_.models[model].demand);
  }

  /// What a node has of a model, or nothing.
  std::map<std::size_t, std::int64_t> of_model(const NodeUse& use, std::size_t model) const {
    std::map<std::size_t, std::int64_t> replicas;
    for (const auto& [column, count] : use.replicas) {
      if (instance_.columns[column].model == model) replicas[column] = count;
    }
    return replicas;
  }

  /// Nodes that run the same of a model, which are lost alike.
  struct Alike {
    std::map<std::size_t, std::int64_t> lost;  ///< replicas by column, with one of them
    std::int64_t count = 0;
  };

  std::vector<Alike> alike_of(std::size_t model) const {
    std::map<std::map<std::size_t, std::int64_t>, std::int64_t> alike;
    for (const auto& [node, use] : uses_) {
      auto lost = of_model(use, model);
      if (lost.empty()) continue;
      std::int64_t& count = alike[std::move(lost)];
      if (!use.whole) {
        ++count;
      } else {
        // One node of a replica over several is enough to lose it.
        const std::size_t column = use.replicas.begin()->first;
        count = copies_[column];
      }
    }
    std::vector<Alike> list;
    for (const auto& [lost, count] : alike) list.push_back({lost, count});
    return list;
  }

  /// Without those whose loss is never worse than that of others, of which there are enough.
  std::vector<Alike> worst_of(const std::vector<Alike>& all) const {
    const auto covers = [](const Alike& more, const Alike& less) {
      return std::all_of(less.lost.begin(), less.lost.end(), [&](const auto& item) {
        const auto found = more.lost.find(item.first);
        return found != more.lost.end() && found->second >= item.second;
      });
    };
    std::vector<Alike> worst;
    for (const Alike& each : all) {
      const bool is_covered = std::any_of(all.begin(), all.end(), [&](const Alike& other) {
        return &other != &each && other.count >= instance_.reserve_nodes && covers(other, each);
      });
      if (!is_covered) worst.push_back(each);
    }
    return worst;
  }

  double with_nodes_lost(std::size_t model) const {
    const std::vector<Alike> alike = alike_of(model);
    return instance_.models[model].demand.size() == 1 ? least_of_one_class(model, alike)
                                                      : least_of_classes(model, worst_of(alike));
  }

  /// The nodes whose replicas serve most are the worst to lose.
  double least_of_one_class(std::size_t model, const std::vector<Alike>& alike) const {
    std::vector<std::pair<double, std::int64_t>> losses;
    for (const auto& [lost, count] : alike) {
      double rate = 0;
      for (const auto& [column, replicas] : lost) {
        rate += static_cast<double>(replicas) * instance_.columns[column].rate.front();
      }
      losses.emplace_back(rate, count);
    }
    double rate = 0;
    for (std::size_t c = 0; c < copies_.size(); ++c) {
      const Column& column = instance_.columns[c];
      if (column.model == model) rate += static_cast<double>(copies_[c]) * column.rate.front();
    }
    rate -= sum_of_largest(std::move(losses), instance_.reserve_nodes);
    return std::max(0.0, rate) / instance_.models[model].demand.front();
  }

  /// Which nodes are worst to lose depends on the shares, so that all ways are tried; of too many
  /// each column loses what the nodes take that have most of it, which is no less than any way.
  double least_of_classes(std::size_t model, const std::vector<Alike>& alike) const {
    std::vector<std::int64_t> most;
    for (const Alike& each : alike) most.push_back(each.count);
    const std::int64_t nodes = instance_.reserve_nodes;
    if (num_losses(most, nodes, kMostLosses) > kMostLosses) {
      return multiple(model, most_lost_of_each(alike));
    }
    double least = multiple(model, {});
    for_each_loss(most, nodes, [&](const std::vector<std::int64_t>& of_group) {
      std::map<std::size_t, std::int64_t> lost;
      for (std::size_t i = 0; i < alike.size(); ++i) {
        for (const auto& [column, replicas] : alike[i].lost) lost[column] += of_group[i] * replicas;
      }
      least = std::min(least, multiple(model, lost));
    });
    return least;
  }

  std::map<std::size_t, std::int64_t> most_lost_of_each(const std::vector<Alike>& alike) const {
    std::map<std::size_t, std::vector<std::pair<std::int64_t, std::int64_t>>> of_column;
    for (const auto& [lost, count] : alike) {
      for (const auto& [column, replicas] : lost) of_column[column].emplace_back(replicas, count);
    }
    std::map<std::size_t, std::int64_t> all;
    for (auto& [column, losses] : of_column) {
      all[column] = sum_of_largest(std::move(losses), instance_.reserve_nodes);
    }
    return all;
  }

  void serve(std::size_t m) {
    const FleetModel& model = instance_.models[m];
    FleetServed& served = check_.models[m];
    served.name = model.name;
    served.demand_per_s = std::accumulate(model.demand.begin(), model.demand.end(), 0.0);
    if (served.demand_per_s <= 0) return;
    served.scale = multiple(m, {});
    if (instance_.reserve_nodes > 0) served.reserve_scale = with_nodes_lost(m);
    if (instance_.objective == FleetObjective::rate) return;
    const double slack = model.demand.size() > 1 ? kSharesSlack : kSlack;
    if (*served.scale < 1 - slack) {
      violate("model {} has replicas for {} of its demand", quote(model.name), *served.scale);
    } else if (served.reserve_scale && *served.reserve_scale < 1 - slack) {
      violate("model {} has replicas for {} of its demand when {} lost", quote(model.name),
              *served.reserve_scale,
              instance_.reserve_nodes == 1 ? std::string("a node is")
                                           : fmt::format("{} nodes are", instance_.reserve_nodes));
    }
  }

  void check_constraints() {
    for (std::size_t i = 0; i < instance_.constraints.size(); ++i) {
      const FleetConstraint& rule = instance_.constraints[i];
      const FleetServed& served = check_.models[rule.model];
      const auto less = [&](const std::optional<std::int64_t>& least, std::int64_t has,
                            const char* what) {
        if (least && has < *least) {
          violate("constraint {}: model {} has {} {}, at least {} belong", i, quote(served.name),
                  has, what, *least);
        }
      };
      const auto more = [&](const std::optional<std::int64_t>& most, std::int64_t has,
                            const char* what) {
        if (most && has > *most) {
          violate("constraint {}: model {} has {} {}, at most {} belong", i, quote(served.name),
                  has, what, *most);
        }
      };
      less(rule.min_nodes, served.nodes, "nodes");
      less(rule.min_replicas, served.replicas, "replicas");
      more(rule.max_replicas, served.replicas, "replicas");
      more(rule.max_gpus,
           rule.device_type ? devices_of(rule.model, *rule.device_type) : served.gpus,
           rule.device_type ? rule.device_type->c_str() : "devices");
      if (rule.not_beside) check_apart(i, rule.model, *rule.not_beside);
    }
  }

  std::int64_t devices_of(std::size_t model, const std::string& type) const {
    std::int64_t total = 0;
    for (const auto& [node, use] : uses_) {
      for (const auto& [column, count] : of_model(use, model)) {
        const DeviceCounts& taken =
            use.whole ? class_of(node).devices : instance_.columns[column].devices;
        const auto found = taken.find(type);
        if (found != taken.end()) total += found->second * (use.whole ? 1 : count);
      }
    }
    return total;
  }

  void check_apart(std::size_t constraint, std::size_t one, std::size_t other) {
    for (const auto& [node, use] : uses_) {
      if (of_model(use, one).empty() || of_model(use, other).empty()) continue;
      violate("constraint {}: models {} and {} are both on node {}", constraint,
              quote(instance_.models[one].name), quote(instance_.models[other].name), node);
      return;
    }
  }

  void set_objective() {
    switch (instance_.objective) {
      case FleetObjective::cost:
        check_.objective =
            check_.usd_per_h + instance_.switch_usd_per_h() * static_cast<double>(check_.switched);
        return;
      case FleetObjective::gpus:
        check_.objective = static_cast<double>(check_.gpus);
        return;
      case FleetObjective::rate:
        break;
    }
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t m = 0; m < check_.models.size(); ++m) {
      const FleetServed& served = check_.models[m];
      if (!served.scale) continue;
      const double scale = instance_.reserve_nodes > 0 ? *served.reserve_scale : *served.scale;
      least = std::min(least, scale / instance_.models[m].weight);
    }
    check_.objective = least;
  }

  const FleetInstance& instance_;
  const FleetPlacement& placement_;
  std::map<std::string, double> price_;
  std::vector<std::int64_t> first_node_;
  std::int64_t num_nodes_ = 0;
  std::map<std::int64_t, NodeUse> uses_;  ///< by node
  std::vector<std::int64_t> copies_;      ///< by column
  FleetCheck check_;
};

}  // namespace

FleetSwitches switches(FleetPlacement from, FleetPlacement to) {
  const auto order = [](FleetPlacement& placement) {
    for (Replica& replica : placement) std::sort(replica.nodes.begin(), replica.nodes.end());
    std::sort(placement.begin(), placement.end(), [](const Replica& a, const Replica& b) {
      return std::tie(a.column, a.nodes) < std::tie(b.column, b.nodes);
    });
  };
  order(from);
  order(to);
  const auto less = [](const Replica& a, const Replica& b) {
    return std::tie(a.column, a.nodes) < std::tie(b.column, b.nodes);
  };
  FleetSwitches found;
  std::set_difference(to.begin(), to.end(), from.begin(), from.end(),
                      std::back_inserter(found.starts), less);
  std::set_difference(from.begin(), from.end(), to.begin(), to.end(),
                      std::back_inserter(found.stops), less);
  return found;
}

FleetCheck check_fleet(const FleetInstance& instance, const FleetPlacement& placement) {
  return Checker(instance, placement).run();
}

}  // namespace tessera::solver
