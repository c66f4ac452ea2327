// Fleets of a few nodes against every placement that there is, by arithmetic of this file alone.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "tessera/core/rng.h"
#include "tessera/solver/fleet/check.h"
#include "tessera/solver/fleet/master.h"

namespace tessera::solver::fleet_property_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// At most 3 nodes of 3 devices; each rule in some of the instances.
FleetInstance random_fleet(Rng& rng) {
  const auto chance = [&](int in) { return rng.integer(1, in) == 1; };
  const auto index = [&](std::size_t size) {
    return static_cast<std::size_t>(rng.integer(0, static_cast<std::int64_t>(size) - 1));
  };
  FleetInstance fleet;
  fleet.objective = static_cast<FleetObjective>(rng.integer(0, 2));
  fleet.billing = chance(2) ? Billing::device : Billing::node;
  fleet.reserve_nodes = chance(3) ? rng.integer(1, 2) : 0;
  if (chance(4)) fleet.max_usd_per_h = 0.1 * static_cast<double>(rng.integer(5, 60));
  for (const char* name : {"A", "B"}) {
    fleet.device_types.push_back(
        {name, chance(8) ? 0 : 0.1 * static_cast<double>(rng.integer(1, 20))});
  }
  std::int64_t left = 3;
  while (left > 0 && fleet.node_classes.size() < 3) {
    NodeClass c{"n" + std::to_string(fleet.node_classes.size()), rng.integer(0, left), {}, 0};
    c.devices[chance(2) ? "A" : "B"] = static_cast<std::int32_t>(rng.integer(1, 2));
    if (chance(3)) c.devices[chance(2) ? "A" : "B"] += 1;
    c.usd_per_h = 0.1 * static_cast<double>(rng.integer(0, 40));
    left -= std::max<std::int64_t>(c.count, 1);
    fleet.node_classes.push_back(c);
  }
  const bool two_classes = fleet.reserve_nodes < 2 && chance(3);
  for (std::size_t m = 0; m < 2; ++m) {
    FleetModel model{"m" + std::to_string(m), {}, 1};
    if (fleet.objective == FleetObjective::rate && chance(3)) model.weight = 2;
    for (int b = 0; b < (two_classes && m == 0 ? 2 : 1); ++b) {
      model.demand.push_back(chance(10) ? 0 : 0.5 * static_cast<double>(rng.integer(1, 5)));
    }
    fleet.models.push_back(model);
  }
  if (fleet.models[0].demand[0] == 0) fleet.models[0].demand[0] = 1;
  for (std::int64_t i = rng.integer(2, 5); i > 0; --i) {
    Column column;
    column.model = index(2);
    column.devices[chance(2) ? "A" : "B"] = static_cast<std::int32_t>(rng.integer(1, 2));
    if (chance(4)) column.devices[chance(2) ? "A" : "B"] = 1;
    for (std::size_t b = 0; b < fleet.models[column.model].demand.size(); ++b) {
      column.rate.push_back(chance(6) ? 0 : 0.25 * static_cast<double>(rng.integer(1, 12)));
    }
    if (chance(6)) column.nodes = 2;
    if (chance(6)) column.node_class = index(fleet.node_classes.size());
    fleet.columns.push_back(column);
    if (chance(6)) fleet.columns.push_back(column);
  }
  // A unit of requests in which everything is tiny, or huge.
  const double unit = chance(4) ? (chance(2) ? 1e-9 : 1e9) : 1;
  for (double& demand : fleet.models[0].demand) demand *= unit;
  for (Column& column : fleet.columns) {
    if (column.model != 0) continue;
    for (double& rate : column.rate) rate *= unit;
  }
  if (chance(3)) {
    FleetConstraint rule{index(2)};
    switch (rng.integer(0, 4)) {
      case 0:
        rule.min_nodes = rng.integer(1, 3);
        break;
      case 1:
        rule.min_replicas = rng.integer(1, 3);
        break;
      case 2:
        rule.max_replicas = rng.integer(0, 3);
        break;
      case 3:
        rule.max_gpus = rng.integer(0, 4);
        if (chance(2)) rule.device_type = chance(2) ? "A" : "B";
        break;
      default:
        rule.not_beside = 1 - rule.model;
    }
    fleet.constraints.push_back(rule);
  }
  // What runs before it, and after it, whether or not that serves anything.
  const std::int64_t nodes = fleet.num_nodes();
  if (fleet.objective == FleetObjective::cost && chance(2) && nodes > 0) {
    fleet.switch_usd = chance(4) ? 10 : 0.1 * static_cast<double>(rng.integer(1, 10));
    fleet.hours = chance(2) ? 1 : 4;
    for (std::int64_t i = rng.integer(1, 2); i > 0; --i) {
      FleetPlacement& placement = fleet.around.emplace_back();
      for (std::int64_t r = rng.integer(0, 4); r > 0; --r) {
        Replica replica{index(fleet.columns.size()), {}};
        const std::int64_t wanted = fleet.columns[replica.column].nodes;
        if (wanted > nodes) continue;
        const std::int64_t first = rng.integer(0, nodes - wanted);
        for (std::int64_t n = 0; n < wanted; ++n) replica.nodes.push_back(first + n);
        placement.push_back(replica);
      }
    }
  }
  return fleet;
}

/// Every placement, one after the other.
class Enumeration {
 public:
  explicit Enumeration(const FleetInstance& fleet) : fleet_(fleet) {
    for (std::size_t c = 0; c < fleet.node_classes.size(); ++c) {
      class_of_.insert(class_of_.end(), static_cast<std::size_t>(fleet.node_classes[c].count), c);
    }
    whole_.resize(class_of_.size(), false);
  }

  std::optional<double> best() {
    node(0);
    return best_;
  }

 private:
  bool allowed(const Column& column, std::size_t c) const {
    return !column.node_class || *column.node_class == c;
  }
  bool fits(const DeviceCounts& devices, const DeviceCounts& room) const {
    return std::all_of(devices.begin(), devices.end(), [&](const auto& item) {
      const auto found = room.find(item.first);
      return item.second <= (found == room.end() ? 0 : found->second);
    });
  }

  void node(std::size_t at) {
    if (at == class_of_.size()) return evaluate();
    if (whole_[at]) return node(at + 1);
    fill(at, 0, fleet_.node_classes[class_of_[at]].devices);
    for (std::size_t k = 0; k < fleet_.columns.size(); ++k) {
      const Column& column = fleet_.columns[k];
      const std::size_t c = class_of_[at];
      if (column.nodes != 2 || !allowed(column, c)) continue;
      if (!fits(column.devices, fleet_.node_classes[c].devices)) continue;
      for (std::size_t other = at + 1; other < class_of_.size(); ++other) {
        if (whole_[other] || class_of_[other] != c) continue;
        whole_[other] = true;
        placed_.push_back({k, {static_cast<std::int64_t>(at), static_cast<std::int64_t>(other)}});
        node(at + 1);
        placed_.pop_back();
        whole_[other] = false;
      }
    }
  }

  void fill(std::size_t at, std::size_t k, const DeviceCounts& room) {
    if (k == fleet_.columns.size()) return node(at + 1);
    fill(at, k + 1, room);
    const Column& column = fleet_.columns[k];
    if (column.nodes != 1 || !allowed(column, class_of_[at])) return;
    DeviceCounts left = room;
    std::size_t copies = 0;
    while (fits(column.devices, left)) {
      for (const auto& [type, count] : column.devices) left[type] -= count;
      placed_.push_back({k, {static_cast<std::int64_t>(at)}});
      ++copies;
      fill(at, k + 1, left);
    }
    placed_.resize(placed_.size() - copies);
  }

  /// Multiple of a model's demand: no weights of its classes of requests ask for more than what the
  /// replicas can give by them, and for two classes the weights that matter are a few.
  double multiple(std::size_t m, const std::set<std::int64_t>& lost) const {
    const std::vector<double>& demand = fleet_.models[m].demand;
    std::vector<const std::vector<double>*> rates;
    for (const Replica& replica : placed_) {
      if (fleet_.columns[replica.column].model != m) continue;
      const bool gone = std::any_of(replica.nodes.begin(), replica.nodes.end(),
                                    [&](std::int64_t n) { return lost.count(n) != 0; });
      if (!gone) rates.push_back(&fleet_.columns[replica.column].rate);
    }
    std::vector<std::vector<double>> weights{{1, 0}, {0, 1}};
    for (const auto* rate : rates) {
      if (rate->size() == 2) weights.push_back({(*rate)[1], (*rate)[0]});
    }
    double least = kInfinity;
    for (const std::vector<double>& weight : weights) {
      double asked = 0, given = 0;
      for (std::size_t b = 0; b < demand.size(); ++b) asked += weight[b] * demand[b];
      if (asked <= 0) continue;
      for (const auto* rate : rates) {
        double most = 0;
        for (std::size_t b = 0; b < demand.size(); ++b)
          most = std::max(most, weight[b] * (*rate)[b]);
        given += most;
      }
      least = std::min(least, given / asked);
    }
    return least;
  }

  double with_losses(std::size_t m) const {
    double least = multiple(m, {});
    const auto nodes = static_cast<std::int64_t>(class_of_.size());
    for (std::int64_t a = 0; a < nodes && fleet_.reserve_nodes > 0; ++a) {
      least = std::min(least, multiple(m, {a}));
      for (std::int64_t b = 0; b < nodes && fleet_.reserve_nodes > 1; ++b) {
        least = std::min(least, multiple(m, {a, b}));
      }
    }
    return least;
  }

  double switched() const {
    double total = 0;
    for (const FleetPlacement& other : fleet_.around) {
      std::map<std::pair<std::size_t, std::vector<std::int64_t>>, int> apart;
      for (const Replica& replica : placed_) ++apart[{replica.column, replica.nodes}];
      for (const Replica& replica : other) --apart[{replica.column, replica.nodes}];
      for (const auto& [replica, count] : apart) total += std::abs(count);
    }
    return total;
  }

  void evaluate() {
    double usd = 0, gpus = 0;
    std::set<std::int64_t> used;
    std::vector<std::set<std::int64_t>> nodes(fleet_.models.size());
    std::vector<std::int64_t> replicas(fleet_.models.size(), 0);
    std::vector<DeviceCounts> taken(fleet_.models.size());
    for (const Replica& replica : placed_) {
      const Column& column = fleet_.columns[replica.column];
      ++replicas[column.model];
      for (const std::int64_t n : replica.nodes) {
        used.insert(n);
        nodes[column.model].insert(n);
        const NodeClass& c = fleet_.node_classes[class_of_[static_cast<std::size_t>(n)]];
        for (const auto& [type, count] : column.nodes > 1 ? c.devices : column.devices) {
          taken[column.model][type] += count;
          gpus += count;
          for (const FleetDevice& device : fleet_.device_types) {
            if (device.name == type && fleet_.billing == Billing::device) {
              usd += count * device.usd_per_h;
            }
          }
        }
      }
    }
    if (fleet_.billing == Billing::node) {
      for (const std::int64_t n : used) {
        usd += fleet_.node_classes[class_of_[static_cast<std::size_t>(n)]].usd_per_h;
      }
    }
    if (fleet_.max_usd_per_h && usd > *fleet_.max_usd_per_h + 1e-9) return;
    for (const FleetConstraint& rule : fleet_.constraints) {
      std::int64_t of_type = 0;
      for (const auto& [type, count] : taken[rule.model]) {
        if (!rule.device_type || *rule.device_type == type) of_type += count;
      }
      if (rule.min_nodes && static_cast<std::int64_t>(nodes[rule.model].size()) < *rule.min_nodes) {
        return;
      }
      if (rule.min_replicas && replicas[rule.model] < *rule.min_replicas) return;
      if (rule.max_replicas && replicas[rule.model] > *rule.max_replicas) return;
      if (rule.max_gpus && of_type > *rule.max_gpus) return;
      if (!rule.not_beside) continue;
      for (const std::int64_t n : nodes[rule.model]) {
        if (nodes[*rule.not_beside].count(n) != 0) return;
      }
    }
    double scale = kInfinity;
    for (std::size_t m = 0; m < fleet_.models.size(); ++m) {
      const double multiple = with_losses(m);
      if (fleet_.objective != FleetObjective::rate && multiple < 1 - 1e-9) return;
      scale = std::min(scale, multiple / fleet_.models[m].weight);
    }
    const double moves = switched() * fleet_.switch_usd / fleet_.hours;
    const double objective = fleet_.objective == FleetObjective::cost   ? usd + moves
                             : fleet_.objective == FleetObjective::gpus ? gpus
                                                                        : scale;
    const bool better = !best_ || (fleet_.objective == FleetObjective::rate ? objective > *best_
                                                                            : objective < *best_);
    if (better) best_ = objective;
  }

  const FleetInstance& fleet_;
  std::vector<std::size_t> class_of_;
  std::vector<char> whole_;
  FleetPlacement placed_;
  std::optional<double> best_;
};

FleetOptions to_the_end(std::int64_t seed = 1) {
  FleetOptions options;
  options.gap = 0;
  options.seed = seed;
  return options;
}

bool close(double a, double b) { return std::abs(a - b) <= 2e-6 * std::max(1.0, std::abs(b)); }

RC_GTEST_PROP(Fleet, IsTheBestOfAllPlacements, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  const FleetInstance fleet = random_fleet(rng);
  const std::optional<double> best = Enumeration(fleet).best();
  const FleetAnswer answer = FleetMaster(fleet).solve(to_the_end());
  RC_TAG(best ? "feasible" : "infeasible");
  RC_LOG() << fleet_json(fleet).dump() << "\n";
  if (!best) {
    RC_ASSERT(answer.status == FleetStatus::infeasible);
    RC_ASSERT(!answer.objective && answer.lack && !answer.lack->message.empty());
    return;
  }
  RC_ASSERT(answer.status == FleetStatus::optimal);
  RC_ASSERT(close(*answer.objective, *best));
  RC_ASSERT(close(*answer.bound, *best));
  const FleetCheck check = check_fleet(fleet, answer.placement);
  RC_ASSERT(check.violations.empty());
  RC_ASSERT(close(check.objective, *best));
}

// What a change of rates leaves of the answer before is a start, and harms nothing.
RC_GTEST_PROP(Fleet, IsTheSameFromAnyStart, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  FleetInstance fleet = random_fleet(rng);
  FleetMaster master(fleet);
  master.solve(to_the_end());
  for (std::size_t c = 0; c < fleet.columns.size(); ++c) {
    for (double& rate : fleet.columns[c].rate) rate *= 0.5 + rng.uniform();
    master.set_rates(c, fleet.columns[c].rate);
  }
  const FleetAnswer again = master.solve(to_the_end(7));
  const FleetAnswer anew = FleetMaster(fleet).solve(to_the_end());
  RC_ASSERT(again.status == anew.status);
  RC_ASSERT(again.objective.has_value() == anew.objective.has_value());
  if (anew.objective) RC_ASSERT(close(*again.objective, *anew.objective));
}

// Nobody's file makes a reader do more than refuse it.
RC_GTEST_PROP(Fleet, IsReadAsItWasWritten, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  const FleetInstance fleet = random_fleet(rng);
  const Json written = fleet_json(fleet);
  RC_ASSERT(fleet_json(fleet_from_json(written, "fleet")) == written);
}

}  // namespace
}  // namespace tessera::solver::fleet_property_test
