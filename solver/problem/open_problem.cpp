#include "tessera/solver/problem/open_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::solver {
namespace {

// A mesh of single devices is no mesh, so that problems without one stay as they are.
std::optional<Mesh> normalised(const Mesh& mesh) {
  for (const auto& degrees : mesh) {
    if (degrees.front() > 1) return mesh;  // largest first
  }
  return std::nullopt;
}

// "2xT4-16G+1xV100-32G"
std::string title_of(const Cluster& cluster) {
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
  part.name = title_of(part);
  return part;
}

std::vector<std::int32_t> degrees_of(const std::optional<Mesh>& mesh) {
  if (!mesh) return {1};
  std::set<std::int32_t> degrees;
  for (const auto& of_set : *mesh) degrees.insert(of_set.begin(), of_set.end());
  return {degrees.begin(), degrees.end()};
}

// The ways to settle each choice; a settled one has one way.
struct Ways {
  std::vector<std::optional<Mesh>> meshes;
  std::vector<std::int32_t> kv_bitwidths;
  std::vector<std::string> notes;
};

Ways ways_of(const ServingProblem& serving, const Choices& choices) {
  Ways ways;
  if (choices.tensor_parallel) {
    MeshChoices listed = list_meshes(serving.model, serving.cluster, *choices.tensor_parallel);
    for (const Mesh& mesh : listed.meshes) ways.meshes.push_back(normalised(mesh));
    ways.notes = std::move(listed.notes);
  } else {
    ways.meshes = {serving.mesh};
  }
  ways.kv_bitwidths = choices.kv_bitwidths.value_or(std::vector{serving.kv_bitwidth});
  return ways;
}

}  // namespace

std::vector<std::int32_t> degrees_of(const ServingProblem& serving, const Choices& choices) {
  return choices.tensor_parallel ? *choices.tensor_parallel : degrees_of(serving.mesh);
}

OpenProblem open_problem(Problem problem, Choices choices) {
  if (ServingProblem* serving = problem.serving()) {
    const Ways ways = ways_of(*serving, choices);
    serving->mesh = ways.meshes.front();
    serving->kv_bitwidth = ways.kv_bitwidths.front();
  }
  return {LoweredProblem(std::move(problem)), std::move(choices)};
}

OpenProblem open_again(const LoweredProblem& problem) {
  Choices choices;
  if (const ServingProblem* serving = problem.serving()) {
    choices.tensor_parallel = degrees_of(serving->mesh);
    choices.kv_bitwidths = {serving->kv_bitwidth};
  }
  return {problem, std::move(choices)};
}

Variants list_variants(const OpenProblem& open) {
  const Problem& problem = open.first.problem();
  const ServingProblem* serving = problem.serving();
  if (serving == nullptr) return {{open.first}, {""}, {}};
  Ways ways = ways_of(*serving, open.choices);
  Variants variants;
  variants.notes = std::move(ways.notes);
  for (const std::optional<Mesh>& mesh : ways.meshes) {
    for (const std::int32_t kv_bitwidth : ways.kv_bitwidths) {
      Problem variant = problem;
      variant.serving()->mesh = mesh;
      variant.serving()->kv_bitwidth = kv_bitwidth;
      variants.problems.emplace_back(std::move(variant));
      std::vector<std::string> parts;
      if (ways.meshes.size() > 1) parts.push_back(mesh_name(serving->cluster, mesh));
      if (ways.kv_bitwidths.size() > 1) parts.push_back(fmt::format("KV {} bit", kv_bitwidth));
      variants.names.push_back(join(parts, ", "));
    }
  }
  return variants;
}

Problem on_devices(Problem problem, const std::vector<std::size_t>& devices,
                   std::int64_t batch_size) {
  ServingProblem& serving = *problem.serving();
  serving.cluster = part_of(serving.cluster, devices);
  serving.workload.batch_size = batch_size;
  serving.mesh.reset();
  return problem;
}

OpenProblem part_of(const OpenProblem& open, const std::vector<std::size_t>& devices,
                    std::int64_t batch_size) {
  const Problem& whole = open.first.problem();
  Choices choices = open.choices;
  choices.tensor_parallel = degrees_of(*whole.serving(), choices);
  return open_problem(on_devices(whole, devices, batch_size), std::move(choices));
}

}  // namespace tessera::solver

namespace tessera {

void Fields<solver::Choices>::check(const solver::Choices& choices, const FieldPath& path) {
  const auto distinct = [&](const std::optional<std::vector<std::int32_t>>& ways,
                            std::string_view name) {
    if (!ways) return;
    if (ways->empty() || std::set(ways->begin(), ways->end()).size() != ways->size()) {
      refuse(path(name), "give at least one number, each once");
    }
  };
  distinct(choices.kv_bitwidths, "kv_bitwidth");
  distinct(choices.tensor_parallel, "tensor_parallel");
}

}  // namespace tessera
