#include "tessera/solver/plan/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/rng.h"
#include "tessera/core/text.h"
#include "tessera/solver/instance/numbers.h"

namespace tessera::solver {
namespace {

constexpr const char* kNetwork = "network";
// What the readers of clusters and of instance files accept.
constexpr double kMaxLinkBytesPerS = 1e15;

std::vector<std::size_t> devices_per_node(const Cluster& cluster) {
  std::vector<std::size_t> count(cluster.nodes.size(), 0);
  for (const ClusterDevice& slot : cluster.devices) ++count[slot.node_index];
  return count;
}

std::string inside(const Node& node) { return "inside " + node.name; }

std::string between(const Json& types, std::size_t from, std::size_t to) {
  return types[from]["name"].get<std::string>() + " - " + types[to]["name"].get<std::string>();
}

/// The rate of the link (GB/s) where transfers over it take time, else nullptr.
const Json* link_rate(const Json& instance, std::size_t from, std::size_t to) {
  const Json& links = instance["link_gbs"];
  if (from >= links.size() || to >= links[from].size()) return nullptr;
  const Json& rate = links[from][to];
  const bool alone = from == to && instance["types"][from]["count"] == 1;
  return alone || !rate.is_number() || rate == 0 ? nullptr : &rate;
}

[[noreturn]] void unknown(const std::string& what, const std::string& name,
                          const std::vector<std::string>& known) {
  refuse(ErrorCode::not_found, what, "the problem has no {}{}", quote(name),
         did_you_mean(name, known));
}

void add(std::optional<double>& rate, double more) {
  if (rate) rate = std::min(kMaxLinkBytesPerS, *rate + more);
}

void speed_up_node(Cluster& cluster, std::size_t node, double more) {
  add(cluster.nodes[node].nvlink_bytes_per_s, more);
  for (ClusterDevice& slot : cluster.devices) {
    if (slot.node_index != node) continue;
    add(slot.device.nvlink_bytes_per_s, more);
    add(slot.device.nvlink_bridge_bytes_per_s, more);
    slot.device.pcie_bytes_per_s = std::min(kMaxLinkBytesPerS, slot.device.pcie_bytes_per_s + more);
  }
}

void upgrade_cluster(Cluster& cluster, const Upgrade& upgrade) {
  for (const auto& [type, bytes] : upgrade.memory_bytes) {
    for (ClusterDevice& slot : cluster.devices) {
      if (slot.device.name == type) slot.device.memory_bytes += bytes;
    }
  }
  for (const auto& [name, rate] : upgrade.link_bytes_per_s) {
    if (name == kNetwork) {
      cluster.network_bytes_per_s = std::min(kMaxLinkBytesPerS, cluster.network_bytes_per_s + rate);
    }
    for (std::size_t n = 0; n < cluster.nodes.size(); ++n) {
      if (name == inside(cluster.nodes[n])) speed_up_node(cluster, n, rate);
    }
  }
}

/// The content of the problem's instance file, in a copy of its own.
Json& instance_of(Problem& problem) {
  auto& file = std::get<InstanceFile>(problem.given);
  auto content = std::make_shared<Json>(*file.content);
  file.content = content;
  return *content;
}

void upgrade_instance(Json& instance, const Upgrade& upgrade) {
  for (Json& type : instance["types"]) {
    const auto found = upgrade.memory_bytes.find(type["name"].get<std::string>());
    if (found == upgrade.memory_bytes.end()) continue;
    type["mem_gb"] = type["mem_gb"].get<double>() + found->second / kGb;
  }
  const std::size_t types = instance["types"].size();
  for (std::size_t from = 0; from < types; ++from) {
    for (std::size_t to = 0; to < types; ++to) {
      const auto [low, high] = std::minmax(from, to);
      const auto found = upgrade.link_bytes_per_s.find(between(instance["types"], low, high));
      const Json* rate = link_rate(instance, from, to);
      if (found == upgrade.link_bytes_per_s.end() || rate == nullptr) continue;
      instance["link_gbs"][from][to] = rate->get<double>() + found->second / kGb;
    }
  }
}

void keep_cluster_devices(Cluster& cluster, const std::vector<std::int64_t>& counts) {
  const std::vector<MeshGroup> groups = mesh_groups(cluster, std::nullopt);
  std::vector<bool> kept(cluster.devices.size(), false);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::int64_t i = 0; i < counts[g]; ++i)
      kept[groups[g].members[static_cast<std::size_t>(i)].front()] = true;
  }
  Cluster left = cluster;
  left.nodes.clear();
  left.devices.clear();
  std::map<std::size_t, std::size_t> node_index;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) continue;
    ClusterDevice slot = cluster.devices[i];
    const auto [it, fresh] = node_index.try_emplace(slot.node_index, left.nodes.size());
    if (fresh) left.nodes.push_back(cluster.nodes[slot.node_index]);
    slot.node_index = it->second;
    left.devices.push_back(std::move(slot));
  }
  cluster = std::move(left);
}

void keep_types(Json& instance, const std::vector<std::int64_t>& counts) {
  Json types = Json::array(), links = Json::array();
  for (std::size_t from = 0; from < counts.size(); ++from) {
    const std::string name = instance["types"][from]["name"].get<std::string>();
    if (counts[from] == 0) {
      instance["lat_pre"].erase(name);
      instance["lat_dec"].erase(name);
      continue;
    }
    Json type = instance["types"][from];
    type["count"] = counts[from];
    types.push_back(std::move(type));
    Json row = Json::array();
    for (std::size_t to = 0; to < counts.size(); ++to) {
      if (counts[to] == 0) continue;
      const Json& old = instance["link_gbs"];
      const bool left_out = from >= old.size() || to >= old[from].size();
      row.push_back(left_out ? Json(nullptr) : old[from][to]);
    }
    links.push_back(std::move(row));
  }
  instance["types"] = std::move(types);
  instance["link_gbs"] = std::move(links);
}

double normal(Rng& rng) {  // Box and Muller, 1958
  const double radius = std::sqrt(-2 * std::log(1 - rng.uniform()));
  return radius * std::cos(2 * std::numbers::pi * rng.uniform());
}

/// Costs of one phase with factors, computed when first asked for.
class ScaledCosts {
 public:
  ScaledCosts(const Instance& instance, std::function<const PhaseCosts&(std::int64_t)> costs,
              std::vector<double> factors)
      : costs_(std::move(costs)),
        factors_(std::move(factors)),
        classes_(static_cast<std::size_t>(instance.num_classes)),
        bits_(instance.num_bits()) {}

  const PhaseCosts& at(std::int64_t size) {
    const auto [it, fresh] = known_.try_emplace(size);
    if (!fresh) return it->second;
    it->second = costs_(size);
    std::vector<double>& layer_s = it->second.layer_s;
    for (std::size_t i = 0; i < layer_s.size(); ++i) {
      layer_s[i] *= factors_[i / (classes_ * bits_) * bits_ + i % bits_];
    }
    return it->second;
  }

 private:
  std::function<const PhaseCosts&(std::int64_t)> costs_;
  std::vector<double> factors_;
  std::size_t classes_, bits_;
  std::map<std::int64_t, PhaseCosts> known_;
};

}  // namespace

std::vector<std::string> link_names(const Problem& problem) {
  std::vector<std::string> names;
  if (const BatchProblem* batch = problem.batch()) {
    const Cluster& cluster = batch->cluster;
    const auto count = devices_per_node(cluster);
    const auto used =
        std::count_if(count.begin(), count.end(), [](std::size_t n) { return n > 0; });
    if (used > 1) names.emplace_back(kNetwork);
    for (std::size_t n = 0; n < count.size(); ++n) {
      if (count[n] > 1) names.push_back(inside(cluster.nodes[n]));
    }
    return names;
  }
  const Json& instance = *problem.instance_file()->content;
  const Json& types = instance["types"];
  for (std::size_t from = 0; from < types.size(); ++from) {
    for (std::size_t to = from; to < types.size(); ++to) {
      if (link_rate(instance, from, to) || link_rate(instance, to, from)) {
        names.push_back(between(types, from, to));
      }
    }
  }
  return names;
}

Problem upgraded(const LoweredProblem& lowered, const Upgrade& upgrade) {
  const Problem& problem = lowered.problem();
  const auto links = link_names(problem);
  for (const auto& [name, rate] : upgrade.link_bytes_per_s) {
    if (std::find(links.begin(), links.end(), name) == links.end()) unknown("link", name, links);
  }
  std::vector<std::string> types;
  for (const DeviceGroup& group : lowered.instance().groups) types.push_back(group.name);
  for (const auto& [type, bytes] : upgrade.memory_bytes) {
    if (std::find(types.begin(), types.end(), type) == types.end()) unknown("memory", type, types);
  }
  Problem changed = problem;
  if (BatchProblem* batch = changed.batch()) {
    upgrade_cluster(batch->cluster, upgrade);
  } else {
    upgrade_instance(instance_of(changed), upgrade);
  }
  return changed;
}

Problem with_devices(const LoweredProblem& problem, const std::vector<std::int64_t>& counts) {
  const std::vector<DeviceGroup>& groups = problem.instance().groups;
  std::int64_t total = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::int64_t count = g < counts.size() ? counts[g] : -1;
    if (count < 0 || count > groups[g].count) {
      throw Error(ErrorCode::out_of_range,
                  fmt::format("counts[{}]: {} is outside [0, {}], the devices of type {}", g + 1,
                              count, groups[g].count, groups[g].name),
                  "counts");
    }
    total += count;
  }
  if (total == 0 || counts.size() != groups.size()) {
    refuse(ErrorCode::out_of_range, "counts",
           "give one count for each of the {} device groups, not all 0", groups.size());
  }
  Problem changed = problem.problem();
  if (BatchProblem* batch = changed.batch()) {
    keep_cluster_devices(batch->cluster, counts);
    batch->mesh.reset();
  } else {
    keep_types(instance_of(changed), counts);
  }
  return changed;
}

LatencyFactors draw_latency_factors(const Instance& instance, double error, std::uint64_t seed) {
  Rng rng(seed);
  LatencyFactors factors;
  std::map<std::string, std::size_t> first;  // group that drew for the type
  const std::size_t bits = instance.num_bits();
  for (std::size_t g = 0; g < instance.groups.size(); ++g) {
    const auto [it, fresh] = first.try_emplace(instance.groups[g].name, g);
    for (std::size_t bit = 0; bit < bits; ++bit) {
      for (std::vector<double>* phase : {&factors.prefill, &factors.decode}) {
        phase->push_back(fresh ? std::exp(error * normal(rng)) : (*phase)[it->second * bits + bit]);
      }
    }
  }
  return factors;
}

Instance with_latency_factors(const Instance& instance, LatencyFactors factors) {
  Instance changed = instance;
  const auto scaled = [&](const auto& costs, std::vector<double>& by) {
    auto table = std::make_shared<ScaledCosts>(instance, costs, std::move(by));
    return [table](std::int64_t size) -> const PhaseCosts& { return table->at(size); };
  };
  changed.prefill = scaled(instance.prefill, factors.prefill);
  changed.decode = scaled(instance.decode, factors.decode);
  return changed;
}

}  // namespace tessera::solver
