#include "tessera/solver/problem/open_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tessera/core/error.h"
#include "tessera/core/record_json.h"
#include "tessera/core/text.h"
#include "tessera/cost/auto_kernel_set.h"
#include "tessera/cost/tensor_parallel.h"
#include "tessera/solver/problem/runtime_kernels.h"

namespace tessera::solver {
namespace {

// A mesh of single devices is no mesh, so that problems without one stay as they are.
std::optional<Mesh> normalised(const Mesh& mesh) {
  for (const auto& degrees : mesh) {
    if (degrees.empty() || degrees.front() > 1) return mesh;  // largest first
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

bool somebody_reads_kv(const cost::KernelSet& kernels, const Cluster& cluster,
                       std::int32_t bitwidth) {
  return std::any_of(
      cluster.devices.begin(), cluster.devices.end(),
      [&](const ClusterDevice& slot) { return kernels.reads_kv(slot.device, bitwidth); });
}

// The ways to settle each choice; a settled one has one way.
struct Ways {
  std::vector<std::optional<Mesh>> meshes;
  std::vector<std::int32_t> kv_bitwidths;
  std::vector<cost::KernelSet> kernel_sets;
  std::vector<std::string> notes;
};

// Takes the bitwidths out that no kernel set has on any device. @throws Error{invalid_argument}
// where none is left.
void keep_readable(Ways& ways, const Cluster& cluster) {
  std::vector<std::int32_t> kept;
  std::vector<std::string> reasons;
  for (const std::int32_t bitwidth : ways.kv_bitwidths) {
    const bool is_read = std::any_of(
        ways.kernel_sets.begin(), ways.kernel_sets.end(),
        [&](const cost::KernelSet& set) { return somebody_reads_kv(set, cluster, bitwidth); });
    if (is_read) {
      kept.push_back(bitwidth);
    } else {
      reasons.push_back(fmt::format("a KV cache of {} bits left out: kernel set {} has none on {}",
                                    bitwidth, ways.kernel_sets.front().name, cluster.name));
    }
  }
  if (kept.empty()) {
    refuse("kv_bitwidth", "{}; give 16, or another kernel set", join(reasons, "; "));
  }
  ways.kv_bitwidths = std::move(kept);
  ways.notes.insert(ways.notes.end(), reasons.begin(), reasons.end());
}

// What of a list passes; the list where nothing does, so that planners say what is wrong with it.
template <class Passes>
std::vector<std::int32_t> kept_of(const std::vector<std::int32_t>& list, const Passes& passes) {
  std::vector<std::int32_t> kept;
  std::copy_if(list.begin(), list.end(), std::back_inserter(kept), passes);
  return kept.empty() ? list : kept;
}

Ways ways_of(const Problem& problem, const Choices& choices,
             const std::vector<cost::KernelSet>& kernel_sets) {
  const std::optional<Runtime>& runtime = problem.runtime;
  const BatchProblem& batch = *problem.batch();
  Ways ways;
  if (choices.tensor_parallel) {
    const bool is_server = runtime == Runtime::vllm || runtime == Runtime::llama_cpp;
    const MeshRules rules{choices.uniform_degree || is_server, problem.may_leave_out()};
    MeshChoices listed = list_meshes(batch.model, batch.cluster, *choices.tensor_parallel, rules);
    for (const Mesh& mesh : listed.meshes) ways.meshes.push_back(normalised(mesh));
    ways.notes = std::move(listed.notes);
  } else {
    ways.meshes = {batch.mesh};
  }
  std::vector<std::string> of_meshes = ways.notes;
  ways.kv_bitwidths =
      kept_of(choices.kv_bitwidths.value_or(std::vector{batch.kv_bitwidth}),
              [&](std::int32_t bitwidth) { return !runtime || !kv_obstacle(*runtime, bitwidth); });
  ways.kernel_sets = kernel_sets.empty() ? std::vector{batch.kernel_set} : kernel_sets;
  keep_readable(ways, batch.cluster);
  if (choices.follows_cluster.kv_bitwidths) ways.notes = std::move(of_meshes);
  return ways;
}

std::vector<Device> devices_of(const Cluster& cluster) {
  std::vector<Device> devices;
  for (const ClusterDevice& slot : cluster.devices) devices.push_back(slot.device);
  return devices;
}

}  // namespace

std::vector<std::int32_t> usual_degrees(const ModelShape& model, const Cluster& cluster) {
  std::map<std::pair<std::string, std::size_t>, std::int32_t> counts;
  std::int32_t most = 1;
  for (const ClusterDevice& slot : cluster.devices) {
    most = std::max(most, ++counts[{slot.device.name, slot.node_index}]);
  }
  std::vector<std::int32_t> degrees;
  for (std::int32_t degree = 1; degree <= most; degree *= 2) {
    if (!cost::why_not_sharded(model, degree)) degrees.push_back(degree);
  }
  return degrees;
}

std::vector<std::int32_t> usual_kv_bitwidths(const std::vector<cost::KernelSet>& kernel_sets,
                                             const Cluster& cluster) {
  std::vector<std::int32_t> bitwidths = {16};
  for (const cost::KernelSet& kernels : kernel_sets) {
    for (const cost::KvRule& rule : kernels.kv_rules) {
      const bool known =
          std::find(bitwidths.begin(), bitwidths.end(), rule.bitwidth) != bitwidths.end();
      if (!known && rule.offered && somebody_reads_kv(kernels, cluster, rule.bitwidth)) {
        bitwidths.push_back(rule.bitwidth);
      }
    }
  }
  return bitwidths;
}

void follow_cluster(BatchProblem& batch, const std::vector<cost::KernelSet>& kernel_sets,
                    Choices& choices) {
  if (choices.follows_cluster.memory) {
    const bool on_cpus = std::ranges::all_of(batch.cluster.devices, [](const ClusterDevice& slot) {
      return slot.device.backend == "cpu";
    });
    const bool in_gguf =
        std::ranges::all_of(kernel_sets, [](const cost::KernelSet& set) { return set.gguf; });
    batch.memory = in_gguf   ? cost::MemoryPreset::llama_cpp
                   : on_cpus ? cost::MemoryPreset::tessera
                             : cost::MemoryPreset::physical;
  }
  if (choices.follows_cluster.tensor_parallel) {
    choices.tensor_parallel = usual_degrees(batch.model, batch.cluster);
  }
  if (choices.follows_cluster.kv_bitwidths) {
    choices.kv_bitwidths = usual_kv_bitwidths(kernel_sets, batch.cluster);
  }
}

std::vector<std::int32_t> degrees_of(const BatchProblem& batch, const Choices& choices) {
  return choices.tensor_parallel ? *choices.tensor_parallel : degrees_of(batch.mesh);
}

OpenProblem open_problem(Problem problem, Choices choices, std::vector<cost::KernelSet> kernel_sets,
                         std::shared_ptr<cost::PriceCache> prices) {
  if (BatchProblem* batch = problem.batch()) {
    const Ways ways = ways_of(problem, choices, kernel_sets);
    batch->mesh = ways.meshes.front();
    batch->kv_bitwidth = ways.kv_bitwidths.front();
    batch->kernel_set = ways.kernel_sets.front();
  }
  LoweredProblem first(std::move(problem), prices);
  return {std::move(first), std::move(choices), std::move(kernel_sets), std::move(prices)};
}

OpenProblem open_again(const LoweredProblem& problem, const std::optional<Choices>& left_open) {
  Choices choices;
  const BatchProblem* batch = problem.batch();
  if (batch != nullptr) {
    if (left_open) choices = *left_open;
    if (!choices.tensor_parallel) choices.tensor_parallel = degrees_of(batch->mesh);
    choices.follows_cluster.kv_bitwidths = false;
    choices.kv_bitwidths = {batch->kv_bitwidth};
  }
  if (batch == nullptr || batch->attention.empty()) {
    return {problem, std::move(choices), {}, nullptr};
  }
  Problem whole = problem.problem();
  whole.batch()->attention.clear();
  return {LoweredProblem(std::move(whole)), std::move(choices), {}, nullptr};
}

Variants list_variants(const OpenProblem& open) {
  const Problem& problem = open.first.problem();
  const BatchProblem* batch = problem.batch();
  if (batch == nullptr) return {{open.first}, {""}, {}};
  Ways ways = ways_of(problem, open.choices, open.kernel_sets);
  Variants variants;
  variants.notes = std::move(ways.notes);
  for (const cost::KernelSet& kernels : ways.kernel_sets) {
    const auto checkpoints = checkpoint_bitwidths(problem.runtime, *batch, kernels);
    const auto add = [&](const std::optional<Mesh>& mesh, std::int32_t kv_bitwidth,
                         const std::vector<std::int32_t>& bitwidths) {
      Problem variant = problem;
      variant.batch()->mesh = mesh;
      variant.batch()->kv_bitwidth = kv_bitwidth;
      variant.batch()->kernel_set = kernels;
      variant.batch()->bitwidths = bitwidths;
      variants.problems.emplace_back(std::move(variant), open.prices);
      std::vector<std::string> parts;
      if (ways.meshes.size() > 1) parts.push_back(mesh_name(batch->cluster, mesh));
      if (ways.kv_bitwidths.size() > 1) parts.push_back(fmt::format("KV {} bit", kv_bitwidth));
      if (ways.kernel_sets.size() > 1) parts.push_back(kernels.name);
      if (checkpoints.size() > 1) parts.push_back(fmt::format("{} bit", fmt::join(bitwidths, "/")));
      variants.names.push_back(join(parts, ", "));
    };
    for (const std::optional<Mesh>& mesh : ways.meshes) {
      for (const std::int32_t kv_bitwidth : ways.kv_bitwidths) {
        if (!somebody_reads_kv(kernels, batch->cluster, kv_bitwidth)) continue;
        for (const auto& bitwidths : checkpoints) add(mesh, kv_bitwidth, bitwidths);
      }
    }
  }
  return variants;
}

Problem on_devices(Problem problem, const std::vector<std::size_t>& devices,
                   std::int64_t batch_size) {
  BatchProblem& batch = *problem.batch();
  batch.cluster = part_of(batch.cluster, devices);
  batch.workload.batch_size = batch_size;
  batch.mesh.reset();
  batch.attention.clear();
  return problem;
}

OpenProblem with_one_more(const OpenProblem& open, std::size_t device) {
  Problem larger = open.first.problem();
  BatchProblem& batch = *larger.batch();
  Cluster& cluster = batch.cluster;
  const auto at = cluster.devices.begin() + static_cast<std::ptrdiff_t>(device);
  const ClusterDevice slot = *at;
  cluster.devices.insert(at + 1, slot);
  cluster.name = title_of(cluster);
  batch.mesh.reset();
  batch.attention.clear();
  Choices choices = open.choices;
  choices.tensor_parallel = degrees_of(*open.first.batch(), open.choices);
  if (choices.follows_cluster.tensor_parallel) {
    choices.tensor_parallel = usual_degrees(batch.model, cluster);
  }
  return open_problem(std::move(larger), std::move(choices), open.kernel_sets, nullptr);
}

OpenProblem part_of(const OpenProblem& open, const std::vector<std::size_t>& devices,
                    std::int64_t batch_size) {
  const Problem& whole = open.first.problem();
  Choices choices = open.choices;
  choices.tensor_parallel = degrees_of(*whole.batch(), choices);
  Problem part = on_devices(whole, devices, batch_size);
  // All parts keep their caches alike, so the bitwidths stay those of the whole cluster.
  const BatchProblem& batch = *part.batch();
  if (choices.follows_cluster.tensor_parallel) {
    choices.tensor_parallel = usual_degrees(batch.model, batch.cluster);
  }
  std::vector<cost::KernelSet> kernel_sets =
      cost::needed_kernel_sets(open.kernel_sets, devices_of(batch.cluster), batch.bitwidths);
  return open_problem(std::move(part), std::move(choices), std::move(kernel_sets), open.prices);
}

}  // namespace tessera::solver

namespace tessera {

Json JsonValue<solver::Choices>::write(const solver::Choices& choices) {
  Json json = Json::object();
  if (choices.tensor_parallel) json["tensor_parallel"] = *choices.tensor_parallel;
  json["uniform_degree"] = choices.uniform_degree;
  if (choices.kv_bitwidths) json["kv_bitwidths"] = *choices.kv_bitwidths;
  json["replicas"] = choices.may_replicate;
  return json;
}

solver::Choices JsonValue<solver::Choices>::read(const Json& json, const std::string& path,
                                                 const FieldSpec&) {
  JsonFields fields(json, path);
  solver::Choices choices;
  const auto list = [&](const char* name, std::int32_t least, std::int32_t most) {
    std::optional<std::vector<std::int32_t>> numbers;
    if (!fields.has(name)) return numbers;
    numbers.emplace();
    for (const double number : json_numbers(fields.at(name), fields.path_of(name), least, most)) {
      numbers->push_back(static_cast<std::int32_t>(number));
    }
    return numbers;
  };
  choices.tensor_parallel = list("tensor_parallel", 1, 64);
  choices.kv_bitwidths = list("kv_bitwidths", kMinKvBitwidth, kMaxKvBitwidth);
  choices.uniform_degree = fields.boolean("uniform_degree", false);
  choices.may_replicate = fields.boolean("replicas", false);
  fields.finish();
  check_record(choices, FieldPath{path, "."});
  return choices;
}

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
