#include "packing.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace tessera::solver {
namespace {

using Devices = std::vector<std::int32_t>;

/// Nodes that run the same.
struct NodeGroup {
  std::int64_t count = 0;
  Devices free;
  std::vector<std::pair<std::size_t, std::int64_t>> replicas;  ///< kind, copies on each
  std::vector<double> rate;                                    ///< [model] on each
  std::vector<char> runs;                                      ///< [model]
  std::int64_t named = -1;  ///< of a single node that keeps what runs on it: which of the class

  std::int64_t room() const { return std::accumulate(free.begin(), free.end(), std::int64_t{0}); }
};

std::int64_t copies_in(const Devices& free, const Devices& size) {
  std::int64_t most = kMaxNodeDevices;
  for (std::size_t t = 0; t < size.size(); ++t) {
    if (size[t] > 0) most = std::min<std::int64_t>(most, free[t] / size[t]);
  }
  return most;
}

/// The nodes of a unit that no replica takes whole.
class UnitPacker {
 public:
  UnitPacker(const FleetSpace& space, const Unit& unit, std::int64_t nodes,
             const Spreading& spreading, std::vector<std::int64_t>& nodes_wanted)
      : space_(space), spreading_(spreading), nodes_wanted_(nodes_wanted) {
    const std::size_t models = space.wanted.size();
    if (nodes > 0) {
      groups_.push_back({nodes,
                         space.classes[unit.node_class].devices,
                         {},
                         std::vector<double>(models, 0),
                         std::vector<char>(models, 0),
                         -1});
    }
    apart_.resize(models);
    for (const FleetConstraint& rule : space.instance->constraints) {
      if (!rule.not_beside) continue;
      apart_[rule.model].push_back(*rule.not_beside);
      apart_[*rule.not_beside].push_back(rule.model);
    }
  }

  /// Leaves a replica on its node of the class, where it has room there.
  bool keep(std::size_t kind, std::int64_t node) {
    const auto known = std::find_if(groups_.begin(), groups_.end(),
                                    [&](const NodeGroup& group) { return group.named == node; });
    std::size_t at = static_cast<std::size_t>(known - groups_.begin());
    if (known == groups_.end()) {
      // The first group is of those that keep nothing.
      if (groups_.empty() || groups_[0].named >= 0 || groups_[0].count == 0) return false;
      NodeGroup own = groups_[0];
      own.count = 1;
      own.named = node;
      if (--groups_[0].count == 0) groups_.erase(groups_.begin());
      at = groups_.size();
      groups_.push_back(std::move(own));
    }
    if (!may_join(groups_[at], kind)) return false;
    fill(at, kind, 1);
    return true;
  }

  bool add(std::size_t kind, std::int64_t copies) {
    while (copies > 0) {
      const std::size_t at = best_group(kind);
      if (at == groups_.size()) return false;
      copies -= fill(at, kind, copies);
    }
    return true;
  }

  const std::vector<NodeGroup>& groups() const { return groups_; }

 private:
  /// Of the model's demand that a copy serves, at its best.
  double rate_of(std::size_t kind) const {
    const std::vector<double>& rate = space_.kinds[kind].rate;
    return rate.empty() ? 0 : *std::max_element(rate.begin(), rate.end());
  }
  double limit_of(std::size_t model) const {
    if (spreading_.most_on_node.empty()) return std::numeric_limits<double>::infinity();
    return spreading_.most_on_node[model] * (1 + 1e-9);
  }

  bool may_join(const NodeGroup& group, std::size_t kind) const {
    if (copies_in(group.free, space_.kinds[kind].devices) < 1) return false;
    const std::vector<std::size_t>& apart = apart_[space_.kinds[kind].model];
    return std::none_of(apart.begin(), apart.end(),
                        [&](std::size_t other) { return group.runs[other] != 0; });
  }

  std::size_t best_group(std::size_t kind) const {
    const std::size_t model = space_.kinds[kind].model;
    const bool to_others = nodes_wanted_[model] > 0;
    // Nodes that do not run the model where it wants more of them, then those within the limit,
    // then those that have least of it; of these the fullest.
    const auto rank = [&](const NodeGroup& group) {
      const bool again = to_others && group.runs[model] != 0;
      const double rate = group.rate[model] + rate_of(kind);
      const double above = rate > limit_of(model) ? rate : 0;
      return std::tuple{again, above, group.room()};
    };
    std::size_t best = groups_.size();
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (!may_join(groups_[g], kind)) continue;
      if (best == groups_.size() || rank(groups_[g]) < rank(groups_[best])) best = g;
    }
    return best;
  }

  std::int64_t copies_for(const NodeGroup& group, std::size_t kind) const {
    const std::size_t model = space_.kinds[kind].model;
    std::int64_t most = copies_in(group.free, space_.kinds[kind].devices);
    if (nodes_wanted_[model] > 0) most = 1;
    const double limit = limit_of(model), each = rate_of(kind);
    if (each > 0 && limit < std::numeric_limits<double>::infinity()) {
      const double within = (limit - group.rate[model]) / each;
      most = within < 1 ? 1 : std::min(most, static_cast<std::int64_t>(std::min(within, 1e9)));
    }
    return most;
  }

  std::int64_t fill(std::size_t at, std::size_t kind, std::int64_t copies) {
    const std::size_t model = space_.kinds[kind].model;
    const std::int64_t each = std::min(copies, copies_for(groups_[at], kind));
    std::int64_t nodes = std::min(groups_[at].count, copies / each);
    if (nodes_wanted_[model] > 0) nodes = std::min(nodes, nodes_wanted_[model]);
    NodeGroup filled = groups_[at];
    filled.count = nodes;
    for (std::size_t t = 0; t < filled.free.size(); ++t) {
      filled.free[t] -= static_cast<std::int32_t>(each) * space_.kinds[kind].devices[t];
    }
    if (filled.runs[model] == 0) {
      nodes_wanted_[model] = std::max<std::int64_t>(0, nodes_wanted_[model] - nodes);
    }
    filled.replicas.emplace_back(kind, each);
    filled.rate[model] += static_cast<double>(each) * rate_of(kind);
    filled.runs[model] = 1;
    groups_[at].count -= nodes;
    if (groups_[at].count == 0) {
      groups_[at] = std::move(filled);
    } else {
      groups_.push_back(std::move(filled));
    }
    return each * nodes;
  }

  const FleetSpace& space_;
  const Spreading& spreading_;
  std::vector<std::int64_t>& nodes_wanted_;  ///< [model] by constraints, and not there yet
  std::vector<NodeGroup> groups_;
  std::vector<std::vector<std::size_t>> apart_;  ///< [model]
};

/// Of the replicas that run around a placement those of one kind in a unit: first those that run
/// before and after it.
std::vector<std::int64_t> running_in(const FleetSpace& space, std::size_t kind, const Unit& unit) {
  std::vector<std::vector<std::int64_t>> at;  // [around] sorted
  for (const auto& running : space.running) {
    std::vector<std::int64_t>& own = at.emplace_back();
    for (const auto& [c, node] : running[kind]) {
      if (c == unit.node_class && node >= unit.first && node < unit.first + unit.count) {
        own.push_back(node);
      }
    }
  }
  if (at.empty()) return {};
  if (at.size() == 1) return at.front();
  std::vector<std::int64_t> both, either, nodes;
  std::set_intersection(at[0].begin(), at[0].end(), at[1].begin(), at[1].end(),
                        std::back_inserter(both));
  std::set_union(at[0].begin(), at[0].end(), at[1].begin(), at[1].end(),
                 std::back_inserter(either));
  nodes = both;
  std::set_difference(either.begin(), either.end(), both.begin(), both.end(),
                      std::back_inserter(nodes));
  return nodes;
}

/// Replicas over whole nodes of a class that may stay, by kind, and the nodes that they have.
FleetPlacement whole_kept(const FleetSpace& space, std::size_t c, const FleetCounts& counts,
                          std::set<std::int64_t>& nodes) {
  FleetPlacement kept;
  if (space.running.empty()) return kept;
  std::vector<std::int64_t> left(space.kinds.size());
  for (std::size_t k = 0; k < left.size(); ++k) left[k] = counts.in_class[k][c];
  for (const FleetPlacement& placement : space.instance->around) {
    for (const Replica& replica : placement) {
      const std::optional<std::size_t> k = space.kind_of_column[replica.column];
      if (!k || !space.kinds[*k].is_whole() || left[*k] == 0) continue;
      if (space.place_of(replica.nodes.front()).value_or(FleetSpace::At{c + 1, 0}).first != c) {
        continue;
      }
      const bool is_free = std::none_of(replica.nodes.begin(), replica.nodes.end(),
                                        [&](std::int64_t n) { return nodes.count(n) != 0; });
      if (!is_free) continue;
      --left[*k];
      nodes.insert(replica.nodes.begin(), replica.nodes.end());
      kept.push_back(replica);
    }
  }
  return kept;
}

/// The nodes of a class in order, over all its ranges.
class NodeNumbers {
 public:
  explicit NodeNumbers(const AlikeNodes& nodes) : nodes_(nodes) {}

  std::int64_t at(std::int64_t index) const {
    for (const NodeRange& range : nodes_.ranges) {
      if (index < range.count) return range.first + index;
      index -= range.count;
    }
    return -1;
  }

 private:
  const AlikeNodes& nodes_;
};

}  // namespace

std::optional<FleetPlacement> pack(const FleetSpace& space, const std::vector<Unit>& units,
                                   const FleetCounts& counts, const Spreading& spreading) {
  FleetPlacement placement;
  std::vector<std::int64_t> nodes_wanted(space.wanted.size(), 0);
  for (const FleetConstraint& rule : space.instance->constraints) {
    if (rule.min_nodes) {
      nodes_wanted[rule.model] = std::max(nodes_wanted[rule.model], *rule.min_nodes);
    }
  }
  // Which nodes of a class are under replicas over whole nodes: of nodes by themselves those that
  // run nothing else, else the first.
  for (std::size_t c = 0; c < space.classes.size(); ++c) {
    const NodeNumbers number(space.classes[c]);
    std::vector<std::size_t> mine;
    for (std::size_t u = 0; u < units.size(); ++u) {
      if (units[u].node_class == c) mine.push_back(u);
    }
    std::int64_t whole = 0;
    for (std::size_t k = 0; k < space.kinds.size(); ++k) {
      whole += counts.in_class[k][c] * space.kinds[k].nodes;
    }
    std::set<std::int64_t> under;  // replicas over whole nodes
    FleetPlacement stay;
    if (spreading.keeps) stay = whole_kept(space, c, counts, under);
    placement.insert(placement.end(), stay.begin(), stay.end());
    whole -= static_cast<std::int64_t>(under.size());
    std::vector<std::int64_t> left(space.kinds.size());
    for (std::size_t k = 0; k < left.size(); ++k) left[k] = counts.in_class[k][c];
    for (const Replica& replica : stay) --left[*space.kind_of_column[replica.column]];
    std::vector<std::int64_t> taken;
    for (const std::size_t u : mine) {
      bool is_alone = true;
      if (mine.size() > 1) {
        for (std::size_t k = 0; k < space.kinds.size(); ++k) {
          if (counts.on_unit[k][u] > 0) is_alone = false;
        }
      }
      for (std::int64_t i = 0; i < units[u].count && is_alone; ++i) {
        if (static_cast<std::int64_t>(taken.size()) == whole) break;
        const std::int64_t node = number.at(units[u].first + i);
        if (under.insert(node).second) taken.push_back(node);
      }
    }
    if (static_cast<std::int64_t>(taken.size()) < whole) return std::nullopt;
    auto next = taken.begin();
    for (std::size_t k = 0; k < space.kinds.size(); ++k) {
      for (std::int64_t i = 0; i < left[k]; ++i) {
        placement.push_back({space.kinds[k].column, {next, next + space.kinds[k].nodes}});
        next += space.kinds[k].nodes;
        auto& wanted = nodes_wanted[space.kinds[k].model];
        wanted = std::max<std::int64_t>(0, wanted - space.kinds[k].nodes);
      }
    }
    for (const std::size_t u : mine) {
      const auto is_under = [&](std::int64_t node) { return under.count(number.at(node)) != 0; };
      std::int64_t free = units[u].count;
      if (!under.empty()) {
        for (std::int64_t i = 0; i < units[u].count; ++i) free -= is_under(units[u].first + i);
      }
      UnitPacker packer(space, units[u], free, spreading, nodes_wanted);
      std::vector<std::size_t> kinds;
      for (std::size_t k = 0; k < space.kinds.size(); ++k) {
        if (counts.on_unit[k][u] > 0) kinds.push_back(k);
      }
      std::stable_sort(kinds.begin(), kinds.end(), [&](std::size_t a, std::size_t b) {
        return space.kinds[a].num_devices > space.kinds[b].num_devices;
      });
      std::vector<std::int64_t> left_on_unit(space.kinds.size(), 0);
      for (const std::size_t k : kinds) {
        left_on_unit[k] = counts.on_unit[k][u];
        if (!spreading.keeps) continue;
        for (const std::int64_t node : running_in(space, k, units[u])) {
          if (left_on_unit[k] > 0 && !is_under(node) && packer.keep(k, node)) --left_on_unit[k];
        }
      }
      for (const std::size_t k : kinds) {
        if (!packer.add(k, left_on_unit[k])) return std::nullopt;
      }
      std::set<std::int64_t> named;
      for (const NodeGroup& group : packer.groups()) {
        if (group.named >= 0) named.insert(group.named);
      }
      std::int64_t node = units[u].first;
      for (const NodeGroup& group : packer.groups()) {
        if (group.replicas.empty()) continue;
        for (std::int64_t i = 0; i < group.count; ++i) {
          while (group.named < 0 && (named.count(node) != 0 || is_under(node))) ++node;
          const std::int64_t its = group.named >= 0 ? group.named : node++;
          for (const auto& [kind, copies] : group.replicas) {
            placement.insert(placement.end(), static_cast<std::size_t>(copies),
                             {space.kinds[kind].column, {number.at(its)}});
          }
        }
      }
    }
  }
  return placement;
}

std::optional<ClassPatterns> patterns_of(const FleetSpace& space, std::size_t node_class,
                                         std::size_t most) {
  ClassPatterns known;
  for (const Kind& kind : space.kinds) {
    const bool runs = !kind.is_whole() &&
                      std::binary_search(kind.classes.begin(), kind.classes.end(), node_class);
    if (runs &&
        std::find(known.shapes.begin(), known.shapes.end(), kind.devices) == known.shapes.end()) {
      known.shapes.push_back(kind.devices);
    }
  }
  Pattern pattern{std::vector<std::int64_t>(known.shapes.size(), 0)};
  std::size_t looked_at = 0;
  bool too_many = false;
  const auto fill = [&](const auto& self, std::size_t shape, const Devices& free) -> void {
    if (too_many || ++looked_at > 20 * most) {
      too_many = true;
      return;
    }
    if (shape == known.shapes.size()) {
      for (const Devices& other : known.shapes) {
        if (copies_in(free, other) > 0) return;
      }
      known.patterns.push_back(pattern);
      too_many = known.patterns.size() > most;
      return;
    }
    Devices left = free;
    for (std::int64_t n = 0;; ++n) {
      pattern.count[shape] = n;
      self(self, shape + 1, left);
      if (copies_in(left, known.shapes[shape]) < 1) break;
      for (std::size_t t = 0; t < left.size(); ++t) left[t] -= known.shapes[shape][t];
    }
    pattern.count[shape] = 0;
  };
  fill(fill, 0, space.classes[node_class].devices);
  if (too_many) return std::nullopt;
  return known;
}

std::optional<FleetCounts> counts_of(const FleetSpace& space, const std::vector<Unit>& units,
                                     const FleetPlacement& placement) {
  FleetCounts counts;
  counts.on_unit.assign(space.kinds.size(), std::vector<std::int64_t>(units.size(), 0));
  counts.in_class.assign(space.kinds.size(), std::vector<std::int64_t>(space.classes.size(), 0));
  // First node of each range, its class and where the range begins in it.
  std::map<std::int64_t, std::pair<std::size_t, std::int64_t>> range_at;
  for (std::size_t c = 0; c < space.classes.size(); ++c) {
    std::int64_t begins = 0;
    for (const NodeRange& range : space.classes[c].ranges) {
      if (range.count > 0) range_at[range.first] = {c, begins};
      begins += range.count;
    }
  }
  // Nodes of a class by themselves: the fuller first, as the programme has them.
  std::map<std::int64_t, std::int64_t> load;
  for (const Replica& replica : placement) {
    if (replica.column >= space.kind_of_column.size() || replica.nodes.empty()) return std::nullopt;
    const std::optional<std::size_t> known = space.kind_of_column[replica.column];
    if (!known) return std::nullopt;
    const Kind& kind = space.kinds[*known];
    for (const std::int64_t node : replica.nodes) {
      load[node] += kind.is_whole() ? 1'000'000 : kind.num_devices;
    }
  }
  std::map<std::size_t, std::vector<std::int64_t>> of_class;
  std::map<std::int64_t, std::size_t> class_of;
  for (const auto& [node, devices] : load) {
    auto range = range_at.upper_bound(node);
    if (range == range_at.begin()) return std::nullopt;
    --range;
    of_class[range->second.first].push_back(node);
    class_of[node] = range->second.first;
  }
  std::map<std::int64_t, std::size_t> unit_of;
  for (auto& [c, nodes] : of_class) {
    if (!space.running.empty()) {  // each node is itself
      for (const std::int64_t node : nodes) {
        const std::int64_t number = space.place_of(node)->second;
        for (std::size_t u = 0; u < units.size(); ++u) {
          const bool is_in = number >= units[u].first && number < units[u].first + units[u].count;
          if (units[u].node_class == c && is_in) unit_of[node] = u;
        }
      }
      continue;
    }
    std::stable_sort(nodes.begin(), nodes.end(),
                     [&](std::int64_t a, std::int64_t b) { return load[a] > load[b]; });
    std::size_t next = 0;
    for (std::size_t u = 0; u < units.size(); ++u) {
      if (units[u].node_class != c) continue;
      for (std::int64_t i = 0; i < units[u].count && next < nodes.size(); ++i) {
        unit_of[nodes[next++]] = u;
      }
    }
    if (next < nodes.size()) return std::nullopt;
  }
  for (const Replica& replica : placement) {
    const std::size_t k = *space.kind_of_column[replica.column];
    const std::int64_t node = replica.nodes.front();
    if (space.kinds[k].is_whole()) {
      ++counts.in_class[k][class_of[node]];
    } else {
      ++counts.on_unit[k][unit_of[node]];
    }
  }
  return counts;
}

}  // namespace tessera::solver
