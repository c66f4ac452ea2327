#include "space.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace tessera::solver {
namespace {

/// What all devices together serve of a demand, where nobody would notice it.
constexpr double kNothing = 1e-10;

std::vector<std::int32_t> by_type(const DeviceCounts& devices,
                                  const std::map<std::string, std::size_t>& index) {
  std::vector<std::int32_t> counts(index.size(), 0);
  for (const auto& [type, count] : devices) counts[index.at(type)] = count;
  return counts;
}

std::int64_t total(const std::vector<std::int32_t>& devices) {
  return std::accumulate(devices.begin(), devices.end(), std::int64_t{0});
}

std::map<std::string, std::size_t> index_of(const std::vector<FleetDevice>& types) {
  std::map<std::string, std::size_t> index;
  for (std::size_t t = 0; t < types.size(); ++t) index.emplace(types[t].name, t);
  return index;
}

template <class Number>
bool no_more(const std::vector<Number>& a, const std::vector<Number>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](Number x, Number y) { return x <= y; });
}

/// Whether `a` is no worse than `b` wherever `b` can run.
bool dominates(const Kind& a, const Kind& b) {
  return a.model == b.model && a.nodes == b.nodes && no_more(a.devices, b.devices) &&
         no_more(b.rate, a.rate) &&
         std::includes(a.classes.begin(), a.classes.end(), b.classes.begin(), b.classes.end());
}

}  // namespace

FleetSpace::FleetSpace(const FleetInstance& fleet) : instance(&fleet) {
  wanted.resize(fleet.models.size());
  of_model.resize(fleet.models.size());
  for (std::size_t m = 0; m < fleet.models.size(); ++m) {
    for (std::size_t b = 0; b < fleet.models[m].demand.size(); ++b) {
      if (fleet.models[m].demand[b] > 0) wanted[m].push_back(b);
    }
  }
  merge_classes();
  make_kinds();
  drop_dominated();
  find_running();
  for (std::size_t k = 0; k < kinds.size(); ++k) of_model[kinds[k].model].push_back(k);
  for (std::size_t m = 0; m < wanted.size(); ++m) {
    for (std::size_t b = 0; b < wanted[m].size(); ++b) {
      const bool served = std::any_of(of_model[m].begin(), of_model[m].end(),
                                      [&](std::size_t k) { return kinds[k].rate[b] > 0; });
      if (!served) {
        unservable.push_back(m);
        break;
      }
    }
  }
}

// Replicas over whole nodes stay within a class, so classes that have some are left alone.
void FleetSpace::merge_classes() {
  const auto index = index_of(instance->device_types);
  std::set<std::size_t> named;
  bool any_whole = false;
  for (const Column& column : instance->columns) {
    if (column.node_class) named.insert(*column.node_class);
    any_whole = any_whole || column.nodes > 1;
  }
  std::int64_t first = 0;
  for (std::size_t i = 0; i < instance->node_classes.size(); ++i) {
    const NodeClass& c = instance->node_classes[i];
    AlikeNodes nodes{
        {{first, c.count}}, c.count, by_type(c.devices, index), 0, c.usd_per_h, c.name, i};
    nodes.num_devices = total(nodes.devices);
    first += c.count;
    auto same = classes.end();
    if (!any_whole && named.count(i) == 0) {
      same = std::find_if(classes.begin(), classes.end(), [&](const AlikeNodes& other) {
        return other.devices == nodes.devices && other.usd_per_h == nodes.usd_per_h &&
               named.count(other.first_class) == 0;
      });
    }
    class_of.push_back(static_cast<std::size_t>(same - classes.begin()));
    if (same == classes.end()) {
      classes.push_back(std::move(nodes));
    } else {
      same->ranges.push_back(nodes.ranges.front());
      same->count += nodes.count;
    }
  }
}

void FleetSpace::make_kinds() {
  const auto index = index_of(instance->device_types);
  const bool by_weight = instance->objective == FleetObjective::rate;
  std::set<std::size_t> asked_for;  // models that have to be there without a demand
  for (const FleetConstraint& rule : instance->constraints) {
    if (rule.min_nodes || rule.min_replicas) asked_for.insert(rule.model);
  }
  double all_devices = 0;
  for (const AlikeNodes& nodes : classes) {
    all_devices += static_cast<double>(nodes.count * nodes.num_devices);
  }
  std::vector<char> runs(instance->columns.size(), 0);
  for (const FleetPlacement& placement : instance->around) {
    if (instance->switch_usd_per_h() <= 0) break;
    for (const Replica& replica : placement) runs[replica.column] = 1;
  }
  for (std::size_t i = 0; i < instance->columns.size(); ++i) {
    const Column& column = instance->columns[i];
    const FleetModel& model = instance->models[column.model];
    Kind kind;
    kind.column = i;
    kind.model = column.model;
    kind.nodes = column.nodes;
    const std::vector<std::int32_t> least = by_type(column.devices, index);
    for (std::size_t c = 0; c < classes.size(); ++c) {
      const AlikeNodes& nodes = classes[c];
      const bool named = !column.node_class || nodes.first_class == *column.node_class;
      if (named && nodes.count >= column.nodes && no_more(least, nodes.devices)) {
        kind.classes.push_back(c);
      }
    }
    kind.runs = runs[i] != 0;
    bool useful = kind.runs || asked_for.count(column.model) != 0;
    for (const std::size_t b : wanted[column.model]) {
      const double multiple = column.rate[b] / model.demand[b] / (by_weight ? model.weight : 1);
      kind.rate.push_back(!by_weight && multiple * all_devices < kNothing ? 0 : multiple);
      useful = useful || kind.rate.back() > 0;
    }
    if (kind.classes.empty() || !useful) {
      ++num_useless;
      continue;
    }
    kind.devices = kind.is_whole() ? std::vector<std::int32_t>(num_types(), 0) : least;
    kind.num_devices = total(kind.devices);
    for (std::size_t t = 0; t < num_types(); ++t) {
      kind.usd_per_h += kind.devices[t] * instance->device_types[t].usd_per_h;
    }
    kinds.push_back(std::move(kind));
  }
}

void FleetSpace::drop_dominated() {
  std::vector<std::size_t> better(kinds.size());
  for (std::size_t b = 0; b < kinds.size(); ++b) {
    better[b] = b;
    if (kinds[b].runs) continue;
    for (std::size_t a = 0; a < kinds.size() && better[b] == b; ++a) {
      if (a == b || (a < b && better[a] != a) || !dominates(kinds[a], kinds[b])) continue;
      const bool equal = !kinds[a].runs && dominates(kinds[b], kinds[a]);
      if (equal && a > b) continue;  // the first of them stays
      better[b] = a;
      ++(equal ? num_merged : num_dominated);
    }
  }
  kind_of_column.resize(instance->columns.size());
  std::vector<std::size_t> place(kinds.size());
  std::vector<Kind> left;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    if (better[k] != k) continue;
    place[k] = left.size();
    left.push_back(kinds[k]);
  }
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    std::size_t best = k;
    while (better[best] != best) best = better[best];
    kind_of_column[kinds[k].column] = place[best];
  }
  kinds = std::move(left);
}

std::optional<FleetSpace::At> FleetSpace::place_of(std::int64_t node) const {
  for (std::size_t c = 0; c < classes.size(); ++c) {
    std::int64_t begins = 0;
    for (const NodeRange& range : classes[c].ranges) {
      if (node >= range.first && node < range.first + range.count) {
        return At{c, begins + node - range.first};
      }
      begins += range.count;
    }
  }
  return std::nullopt;
}

void FleetSpace::find_running() {
  if (instance->switch_usd_per_h() <= 0) return;
  for (const FleetPlacement& placement : instance->around) {
    std::vector<std::vector<At>>& own = running.emplace_back(kinds.size());
    for (const Replica& replica : placement) {
      const std::optional<std::size_t> k = kind_of_column[replica.column];
      const std::optional<At> at = place_of(replica.nodes.front());
      const bool can_run =
          k && at &&
          std::binary_search(kinds[*k].classes.begin(), kinds[*k].classes.end(), at->first);
      if (can_run) {
        own[*k].push_back(*at);
      } else {
        ++num_leaving;
      }
    }
    for (std::vector<At>& places : own) std::sort(places.begin(), places.end());
  }
}

std::int64_t FleetSpace::fit(const Kind& kind, std::size_t node_class) const {
  std::int64_t most = kMaxNodeDevices;
  for (std::size_t t = 0; t < kind.devices.size(); ++t) {
    if (kind.devices[t] > 0) {
      most = std::min<std::int64_t>(most, classes[node_class].devices[t] / kind.devices[t]);
    }
  }
  return most;
}

bool FleetSpace::fills(const Kind& kind, std::size_t node_class) const {
  const std::int64_t copies = fit(kind, node_class);
  for (std::size_t t = 0; t < kind.devices.size(); ++t) {
    const std::int64_t takes = copies * kind.devices[t];
    if (takes > 0 && takes == classes[node_class].devices[t]) return true;
  }
  return false;
}

double FleetSpace::whole_usd_per_h(std::size_t node_class) const {
  const AlikeNodes& nodes = classes[node_class];
  if (billed_by_node()) return nodes.usd_per_h;
  double usd = 0;
  for (std::size_t t = 0; t < num_types(); ++t) {
    usd += nodes.devices[t] * instance->device_types[t].usd_per_h;
  }
  return usd;
}

}  // namespace tessera::solver
