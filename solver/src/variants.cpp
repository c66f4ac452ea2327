#include "tessera/solver/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tessera/core/text.h"

namespace tessera::solver {
namespace {

// A mesh of single devices is no mesh, so that problems without one stay as they are.
Mesh normalised(const Mesh& mesh) {
  for (const auto& degrees : mesh) {
    if (degrees.front() > 1) return mesh;  // largest first
  }
  return {};
}

// "2xT4-16G+1xV100-32G"
std::string name_of(const Cluster& cluster) {
  std::vector<std::string> order;
  std::map<std::string, int> counts;
  for (const ClusterDevice& slot : cluster.devices) {
    if (counts[slot.device.name]++ == 0) order.push_back(slot.device.name);
  }
  for (std::string& name : order) name = fmt::format("{}x{}", counts[name], name);
  return join(order, "+");
}

Cluster part_of(const Cluster& whole, const std::vector<std::size_t>& devices) {
  Cluster part = whole;
  part.nodes.clear();
  part.devices.clear();
  std::map<std::size_t, std::size_t> node_of;
  for (const std::size_t i : devices) {
    ClusterDevice slot = whole.devices.at(i);
    const auto [it, fresh] = node_of.try_emplace(slot.node_index, part.nodes.size());
    if (fresh) part.nodes.push_back(whole.nodes[slot.node_index]);
    slot.node_index = it->second;
    part.devices.push_back(slot);
  }
  part.name = name_of(part);
  return part;
}

}  // namespace

std::vector<std::int32_t> degrees_of(const ServingProblem& serving) {
  if (!serving.tensor_parallel.empty()) return serving.tensor_parallel;
  std::set<std::int32_t> degrees;
  for (const auto& of_set : serving.mesh) degrees.insert(of_set.begin(), of_set.end());
  if (degrees.empty()) degrees.insert(1);
  return {degrees.begin(), degrees.end()};
}

void settle(ServingProblem& serving) {
  serving.kv_bitwidth = serving.kv_bitwidths.front();
  if (serving.tensor_parallel.empty()) return;
  serving.mesh = normalised(
      list_meshes(serving.model, serving.cluster, serving.tensor_parallel).meshes.front());
}

Variants list_variants(const Problem& problem) {
  Variants variants;
  if (!problem.serving) {
    variants.problems = {problem};
    variants.names = {""};
    return variants;
  }
  const ServingProblem& serving = *problem.serving;
  MeshChoices choices;
  choices.meshes = {serving.mesh};
  if (!serving.tensor_parallel.empty()) {
    choices = list_meshes(serving.model, serving.cluster, serving.tensor_parallel);
  }
  variants.notes = choices.notes;
  for (const Mesh& mesh : choices.meshes) {
    for (const std::int32_t kv_bitwidth : serving.kv_bitwidths) {
      Problem variant = problem;
      variant.serving->mesh = normalised(mesh);
      variant.serving->tensor_parallel.clear();
      variant.serving->kv_bitwidths = {kv_bitwidth};
      variant.serving->kv_bitwidth = kv_bitwidth;
      variants.problems.push_back(std::move(variant));
      std::vector<std::string> parts;
      if (choices.meshes.size() > 1) parts.push_back(mesh_name(serving.cluster, mesh));
      if (serving.kv_bitwidths.size() > 1) parts.push_back(fmt::format("KV {} bit", kv_bitwidth));
      variants.names.push_back(join(parts, ", "));
    }
  }
  return variants;
}

Problem part_of(const Problem& problem, const std::vector<std::size_t>& devices,
                std::int64_t batch_size) {
  Problem part = problem;
  ServingProblem& serving = *part.serving;
  serving.tensor_parallel = degrees_of(serving);
  serving.cluster = part_of(serving.cluster, devices);
  serving.workload.batch_size = batch_size;
  settle(serving);
  return part;
}

}  // namespace tessera::solver
