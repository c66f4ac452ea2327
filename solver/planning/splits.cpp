#include "splits.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "tessera/core/text.h"

namespace tessera::solver {
namespace {

std::size_t total(const Counts& counts) {
  std::size_t sum = 0;
  for (const std::size_t count : counts) sum += count;
  return sum;
}

/// Lists the ways of cutting counts into parts, each way once: with its parts in descending order.
class Cutting {
 public:
  /// `take(parts)` says whether to go on.
  explicit Cutting(std::function<bool(const std::vector<Counts>&)> take) : take_(std::move(take)) {}

  /// Whether all ways were taken.
  bool cut(const Counts& left, std::size_t num_parts) {
    if (num_parts == 1) {
      if (total(left) == 0 || (!parts_.empty() && left > parts_.back())) return true;
      parts_.push_back(left);
      const bool go_on = take_(parts_);
      parts_.pop_back();
      return go_on;
    }
    Counts counts(left.size());
    return choose(left, num_parts, counts, 0);
  }

 private:
  // Every choice of at most `left` devices that does not come before the previous part.
  bool choose(const Counts& left, std::size_t num_parts, Counts& counts, std::size_t k) {
    if (k < left.size()) {
      for (std::size_t count = left[k] + 1; count-- > 0;) {
        counts[k] = count;
        if (!choose(left, num_parts, counts, k + 1)) return false;
      }
      return true;
    }
    if (total(counts) == 0 || (!parts_.empty() && counts > parts_.back())) return true;
    if (total(left) - total(counts) < num_parts - 1) return true;
    Counts rest = left;
    for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= counts[i];
    parts_.push_back(counts);
    const bool go_on = cut(rest, num_parts - 1);
    parts_.pop_back();
    return go_on;
  }

  std::function<bool(const std::vector<Counts>&)> take_;
  std::vector<Counts> parts_;
};

/// Collects splits that planners can tell apart.
class Collection {
 public:
  Collection(const Cluster& cluster, const std::vector<AlikeDevices>& alike)
      : alike_(alike), names_(cluster, alike) {}

  void add(const std::vector<Counts>& parts) {
    Split split = place(parts, alike_, names_);
    std::vector<std::string> keys;
    for (const ClusterPart& part : split) keys.push_back(part.key);
    std::sort(keys.begin(), keys.end());
    if (seen_.insert(join(keys, " || ")).second) splits.push_back(std::move(split));
  }

  std::vector<Split> splits;

 private:
  const std::vector<AlikeDevices>& alike_;
  PartNames names_;
  std::set<std::string> seen_;
};

}  // namespace

std::vector<AlikeDevices> alike_devices(const Cluster& cluster) {
  std::vector<AlikeDevices> all;
  for (std::size_t i = 0; i < cluster.devices.size(); ++i) {
    const ClusterDevice& slot = cluster.devices[i];
    const auto known = std::find_if(all.begin(), all.end(), [&](const AlikeDevices& alike) {
      return alike.type == slot.device.name && alike.node_index == slot.node_index;
    });
    AlikeDevices& alike = known != all.end() ? *known : all.emplace_back();
    alike.type = slot.device.name;
    alike.node_index = slot.node_index;
    alike.devices.push_back(i);
  }
  return all;
}

PartNames::PartNames(const Cluster& cluster, const std::vector<AlikeDevices>& alike)
    : cluster_(cluster), alike_(alike) {}

std::string PartNames::of(const Counts& counts) const {
  std::set<std::size_t> nodes;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] > 0) nodes.insert(alike_[k].node_index);
  }
  std::vector<std::string> keys;
  for (const std::size_t node : nodes) keys.push_back(of_node(counts, node));
  std::sort(keys.begin(), keys.end());
  return join(keys, " | ");
}

// What the part has of a node: types, how many, the links among them, host memory.
std::string PartNames::of_node(const Counts& counts, std::size_t node) const {
  std::vector<std::size_t> present;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    if (alike_[k].node_index == node && counts[k] > 0) present.push_back(k);
  }
  std::sort(present.begin(), present.end(),
            [&](std::size_t a, std::size_t b) { return alike_[a].type < alike_[b].type; });
  std::vector<std::string> facts;
  for (std::size_t i = 0; i < present.size(); ++i) {
    const std::size_t a = present[i];
    facts.push_back(fmt::format("{} x {}", alike_[a].type, counts[a]));
    for (std::size_t j = i; j < present.size(); ++j) {
      if (i == j && counts[a] < 2) continue;
      const std::size_t from = alike_[a].devices[0];
      const std::size_t to = alike_[present[j]].devices[i == j ? 1 : 0];
      facts.push_back(fmt::format("{:.17g}", cluster_.link(from, to).bytes_per_s));
    }
  }
  const auto& memory = cluster_.nodes[node].host_memory_bytes;
  facts.push_back(memory ? fmt::format("{:.17g}", *memory) : "unknown");
  return join(facts, " ");
}

Split place(const std::vector<Counts>& parts, const std::vector<AlikeDevices>& alike,
            const PartNames& names) {
  Counts used(alike.size());
  Split split;
  for (const Counts& counts : parts) {
    ClusterPart& part = split.emplace_back();
    part.key = names.of(counts);
    for (std::size_t k = 0; k < counts.size(); ++k) {
      for (std::size_t i = 0; i < counts[k]; ++i) {
        part.devices.push_back(alike[k].devices[used[k]++]);
      }
    }
    std::sort(part.devices.begin(), part.devices.end());
  }
  return split;
}

Splits list_splits(const Cluster& cluster, std::size_t num_parts) {
  const std::vector<AlikeDevices> alike = alike_devices(cluster);
  Counts left;
  for (const AlikeDevices& same : alike) left.push_back(same.devices.size());
  Collection found(cluster, alike);
  std::size_t looked_at = 0;
  const bool complete = Cutting([&](const std::vector<Counts>& parts) {
                          if (found.splits.size() >= kMostSplits || ++looked_at > 100 * kMostSplits)
                            return false;
                          found.add(parts);
                          return true;
                        }).cut(left, num_parts);
  if (complete) return {std::move(found.splits), true};
  Collection even(cluster, alike);
  const bool cuts_evenly = std::all_of(left.begin(), left.end(),
                                       [&](std::size_t count) { return count % num_parts == 0; });
  for (std::size_t& count : left) count /= num_parts;
  if (cuts_evenly) even.add(std::vector<Counts>(num_parts, left));
  return {std::move(even.splits), false};
}

}  // namespace tessera::solver
