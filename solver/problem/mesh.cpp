#include "tessera/solver/problem/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "tessera/core/device_group.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/cost/tensor_parallel.h"

namespace tessera::solver {
namespace {

using Degrees = std::vector<std::int32_t>;

// Devices of each type and node, in cluster order.
std::vector<std::vector<std::size_t>> alike(const Cluster& cluster) {
  std::vector<std::vector<std::size_t>> sets;
  std::map<std::pair<std::string, std::size_t>, std::size_t> known;
  for (std::size_t i = 0; i < cluster.devices.size(); ++i) {
    const ClusterDevice& slot = cluster.devices[i];
    const auto [it, fresh] = known.try_emplace({slot.device.name, slot.node_index}, sets.size());
    if (fresh) sets.emplace_back();
    sets[it->second].push_back(i);
  }
  return sets;
}

// Devices of each node that has some.
std::vector<std::vector<std::size_t>> by_node(const Cluster& cluster) {
  std::map<std::size_t, std::vector<std::size_t>> nodes;
  for (std::size_t i = 0; i < cluster.devices.size(); ++i) {
    nodes[cluster.devices[i].node_index].push_back(i);
  }
  std::vector<std::vector<std::size_t>> sets;
  for (auto& [node, devices] : nodes) sets.push_back(std::move(devices));
  return sets;
}

// What the lists of a mesh are of.
std::vector<std::vector<std::size_t>> sets_of(const Cluster& cluster, const Mesh& mesh) {
  auto sets = alike(cluster);
  if (mesh.size() >= sets.size()) return sets;
  auto nodes = by_node(cluster);
  return mesh.size() == nodes.size() ? nodes : sets;
}

void check_mesh(const std::vector<std::vector<std::size_t>>& sets, const Mesh& mesh) {
  bool fits = mesh.size() == sets.size();
  for (std::size_t s = 0; fits && s < sets.size(); ++s) {
    fits = std::accumulate(mesh[s].begin(), mesh[s].end(), std::size_t{0}) <= sets[s].size() &&
           std::is_sorted(mesh[s].rbegin(), mesh[s].rend());
  }
  if (fits) return;
  refuse("mesh",
         "one list of degrees, largest first, is needed for each of the {} pairs of device type "
         "and node, or for each node, with sum no more than there are",
         sets.size());
}

// Ways to write `count`, or what it has less than the smallest degree above that, as a sum of
// degrees, none above `largest`; most small degrees first.
void cut(std::int32_t count, std::int32_t largest, const Degrees& ascending, bool may_leave_out,
         Degrees& prefix, std::vector<Degrees>& found) {
  if (found.size() > kMostMeshes) return;
  if (count == 0 || (may_leave_out && count < ascending.front())) {
    found.push_back(prefix);
    return;
  }
  for (const std::int32_t degree : ascending) {
    if (degree > std::min(count, largest)) break;
    prefix.push_back(degree);
    cut(count - degree, degree, ascending, may_leave_out, prefix, found);
    prefix.pop_back();
  }
}

// One choice for each set of devices: all combinations, or nothing when there are too many.
std::optional<std::vector<Mesh>> combine(const std::vector<std::vector<Degrees>>& choices) {
  std::vector<Mesh> meshes{{}};
  for (const auto& of_set : choices) {
    if (of_set.empty() || meshes.size() * of_set.size() > kMostMeshes) return std::nullopt;
    std::vector<Mesh> longer;
    for (const Mesh& mesh : meshes) {
      for (const Degrees& degrees : of_set) {
        longer.push_back(mesh);
        longer.back().push_back(degrees);
      }
    }
    meshes = std::move(longer);
  }
  return meshes;
}

std::vector<Degrees> same_throughout(std::int32_t count, const Degrees& degrees,
                                     std::int32_t largest, bool may_leave_out) {
  std::vector<Degrees> found;
  for (const std::int32_t degree : degrees) {
    if (degree > largest || (count % degree != 0 && !may_leave_out)) continue;
    found.emplace_back(static_cast<std::size_t>(count / degree), degree);
  }
  return found;
}

// The mesh with one degree for the whole cluster; absent where it does not divide.
std::optional<Mesh> mesh_of_degree(const std::vector<std::vector<std::size_t>>& sets,
                                   std::int32_t degree, bool may_leave_out) {
  Mesh mesh;
  for (const auto& set : sets) {
    const auto of_set =
        same_throughout(static_cast<std::int32_t>(set.size()), {degree}, degree, may_leave_out);
    if (of_set.empty()) return std::nullopt;
    mesh.push_back(of_set.front());
  }
  return mesh;
}

Degrees usable_degrees(const ModelShape& model, const std::vector<std::vector<std::size_t>>& sets,
                       const Degrees& degrees, std::vector<std::string>& notes) {
  std::size_t most = 0;
  for (const auto& set : sets) most = std::max(most, set.size());
  Degrees usable;
  for (const std::int32_t degree : degrees) {
    auto reason = cost::why_not_sharded(model, degree);
    if (!reason && static_cast<std::size_t>(degree) > most) {
      reason = fmt::format("no node has as many devices of one type, {} at most", most);
    }
    if (reason) {
      notes.push_back(fmt::format("tensor parallelism of {} left out: {}", degree, *reason));
    } else {
      usable.push_back(degree);
    }
  }
  if (usable.empty()) {
    refuse("tensor_parallel", "no degree is left for {}: {}", model.name, join(notes, "; "));
  }
  std::sort(usable.begin(), usable.end());
  return usable;
}

// Fewer meshes than all of them, where these are too many.
std::vector<Mesh> list_fewer(const std::vector<std::vector<std::size_t>>& sets,
                             const Degrees& degrees, bool may_leave_out,
                             std::vector<std::string>& notes) {
  const auto same = [&](const std::vector<std::size_t>& set, std::int32_t largest) {
    return same_throughout(static_cast<std::int32_t>(set.size()), degrees, largest, may_leave_out);
  };
  std::vector<std::vector<Degrees>> choices;
  for (const auto& set : sets) choices.push_back(same(set, degrees.back()));
  notes.push_back(
      fmt::format("more than {} tensor-parallel meshes: only those with one degree "
                  "for all devices of a type on a node were searched",
                  kMostMeshes));
  if (auto meshes = combine(choices)) return *std::move(meshes);
  notes.back() = fmt::format(
      "more than {} tensor-parallel meshes: only those with one degree "
      "for the whole cluster, or less where it does not divide, were searched",
      kMostMeshes);
  std::vector<Mesh> meshes;
  for (const std::int32_t largest : degrees) {
    Mesh mesh;
    for (const auto& set : sets) {
      const auto fitting = same(set, largest);
      if (!fitting.empty()) mesh.push_back(fitting.back());
    }
    if (mesh.size() == sets.size()) meshes.push_back(std::move(mesh));
  }
  return meshes;
}

}  // namespace

std::vector<MeshGroup> mesh_groups(const Cluster& cluster, const std::optional<Mesh>& mesh) {
  const auto sets = mesh ? sets_of(cluster, *mesh) : alike(cluster);
  if (mesh) check_mesh(sets, *mesh);
  std::vector<MeshGroup> groups;
  for (std::size_t s = 0; s < sets.size(); ++s) {
    const Degrees degrees = mesh ? (*mesh)[s] : Degrees(sets[s].size(), 1);
    auto next = sets[s].begin();
    for (std::size_t i = 0; i < degrees.size(); ++i) {
      const std::int32_t degree = degrees[i];
      std::vector<std::size_t> members(next, next + degree);
      std::string name = group_name(group_type(cluster, members), degree);
      if (i == 0 || name != groups.back().name) groups.push_back({std::move(name), degree, {}});
      groups.back().members.push_back(std::move(members));
      next += degree;
    }
  }
  return groups;
}

std::string mesh_name(const Cluster& cluster, const std::optional<Mesh>& mesh) {
  std::vector<std::string> parts;
  for (const MeshGroup& group : mesh_groups(cluster, mesh)) {
    const std::size_t count = group.members.size();
    parts.push_back(count == 1 ? group.name : fmt::format("{} of {}", count, group.name));
  }
  return join(parts, " + ");
}

MeshChoices list_meshes(const ModelShape& model, const Cluster& cluster,
                        const std::vector<std::int32_t>& degrees, const MeshRules& rules) {
  MeshChoices choices;
  const auto sets = alike(cluster);
  const Degrees usable = usable_degrees(model, sets, degrees, choices.notes);
  if (rules.one_degree) {
    for (const std::int32_t degree : usable) {
      if (auto mesh = mesh_of_degree(sets, degree, rules.may_leave_out))
        choices.meshes.push_back(*std::move(mesh));
    }
    if (!choices.meshes.empty()) return choices;
  }
  std::vector<std::vector<Degrees>> cuts;
  for (const auto& set : sets) {
    Degrees prefix;
    cut(static_cast<std::int32_t>(set.size()), usable.back(), usable, rules.may_leave_out, prefix,
        cuts.emplace_back());
    if (!cuts.back().empty()) continue;
    const ClusterDevice& slot = cluster.devices[set.front()];
    refuse("tensor_parallel",
           "the {} x {} of node '{}' cannot be cut into groups of {}; allow 1 as well", set.size(),
           slot.device.name, cluster.nodes[slot.node_index].name, fmt::join(usable, " or "));
  }
  auto all = combine(cuts);
  choices.meshes =
      all ? *std::move(all) : list_fewer(sets, usable, rules.may_leave_out, choices.notes);
  return choices;
}

}  // namespace tessera::solver
