// From models and devices to the abstract instance that solvers see.

#include <fmt/format.h>

#include <algorithm>

#include "batch_costs.h"
#include "kv_omega.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/cost/device_group.h"
#include "tessera/cost/tensor_parallel.h"
#include "tessera/solver/instance/instance_file.h"
#include "tessera/solver/problem/problem.h"
#include "tessera/solver/problem/runtime_kernels.h"

namespace tessera::solver {
namespace {

void set_omega(Instance& instance, const Problem& problem) {
  const BatchProblem& batch = *problem.batch();
  const Indicator& indicator = batch.indicator;
  if (indicator.num_layers != static_cast<std::size_t>(batch.model.num_layers)) {
    refuse("problem.indicator", "it has {} layers, {} has {}", indicator.num_layers,
           batch.model.name, batch.model.num_layers);
  }
  const double scale = omega_scale(problem);
  // Every layer has one bitwidth, so what its KV cache loses may stand in each of them.
  const std::vector<double> kv = kv_omega(batch);
  for (std::size_t layer = 0; layer < indicator.num_layers; ++layer) {
    for (std::int32_t bit : instance.bitwidths) {
      instance.omega.push_back(scale * (indicator.at(layer, bit) + kv[layer]));
    }
  }
}

// Summed over the members of a tensor-parallel group, one row per sharding.
void set_bytes(Instance& instance, const BatchProblem& batch,
               const std::vector<Sharding>& shardings) {
  const cost::MemoryQuery query = memory_query(batch);
  instance.embedding_bytes.clear();
  for (const auto& [degree, attention_ratio] : shardings) {
    const ModelShape member = cost::shard(batch.model, degree, batch.split);
    for (const LayerShape& layer : member.layer_classes) {
      const double kv =
          cost::layer_kv_bytes(cost::kept_of(layer, attention_ratio), batch.workload, query);
      for (std::int32_t bit : batch.bitwidths) {
        instance.layer_bytes.push_back(degree * (kv + cost::layer_weight_bytes(layer, bit, query)));
      }
    }
    for (const StagePlace place : kStagePlaces) {
      instance.embedding_bytes.push_back(degree * cost::embedding_bytes(member, place, query));
    }
  }
}

// Whether a runtime can have such a group with this bitwidth at all.
bool can_launch(const Problem& problem, const std::vector<std::size_t>& members,
                std::int32_t bitwidth) {
  if (!problem.runtime) return true;
  const BatchProblem& batch = *problem.batch();
  if (*problem.runtime == Runtime::llama_cpp && members.size() > 1 &&
      sharing_obstacle(batch.device(members.front()), batch.kv_bitwidth)) {
    return false;
  }
  return std::all_of(members.begin(), members.end(), [&](std::size_t i) {
    const Device& device = batch.device(i);
    const cost::KernelRule* rule = batch.kernel_set.find(device, bitwidth);
    if (rule != nullptr && cut_obstacle(*problem.runtime, batch.model, *rule, bitwidth,
                                        static_cast<std::int64_t>(members.size()), batch.split)) {
      return false;
    }
    return kernel_obstacles(*problem.runtime, batch.model, {bitwidth}, batch.kv_bitwidth, device)
        .empty();
  });
}

Instance lower_batch(const Problem& problem, std::shared_ptr<cost::PriceCache> prices) {
  const BatchProblem& batch = *problem.batch();
  check_record(batch, FieldPath{"problem", "."});
  const cost::MemoryQuery query = memory_query(batch);
  Instance instance;
  instance.name = fmt::format("{} on {}", batch.model.name, batch.cluster.name);
  instance.bitwidths = batch.bitwidths;
  instance.layer_class = batch.model.layer_class;
  instance.num_classes = static_cast<std::int32_t>(batch.model.layer_classes.size());
  const auto costs = std::make_shared<BatchCosts>(batch, std::move(prices));
  for (std::size_t g = 0; g < costs->groups().size(); ++g) {
    const MeshGroup& group = costs->groups()[g];
    const std::vector<std::size_t>& members = group.members.front();
    const Node& node = batch.cluster.nodes[batch.cluster.devices[members.front()].node_index];
    const double usable = cost::empty_account(batch, members, query).left_bytes();
    const auto attention = attention_of(batch, members.front());
    instance.groups.push_back({group.name, node.name,
                               static_cast<std::int32_t>(group.members.size()),
                               group.degree * usable, costs->sharding_of(g), group.degree > 1});
    for (std::int32_t bit : batch.bitwidths) {
      const bool runs =
          cost::has_kernel(batch, members, bit) &&
          cost::reads_kv(batch, members, batch.kv_bitwidth) &&
          (!attention || cost::reads_kv(batch, {attention->device}, batch.kv_bitwidth)) &&
          can_launch(problem, members, bit);
      instance.allowed.push_back(runs ? 1 : 0);
    }
  }
  set_bytes(instance, batch, costs->shardings());
  set_omega(instance, problem);
  instance.batch_size = batch.workload.batch_size;
  instance.num_chunks = batch.workload.num_chunks();
  instance.output_tokens = batch.workload.output_tokens;
  instance.prefill = [costs](std::int64_t size) -> const PhaseCosts& {
    return costs->prefill(size);
  };
  instance.monotone_costs = costs->are_monotone();
  instance.decode = [costs](std::int64_t size) -> const PhaseCosts& { return costs->decode(size); };
  return instance;
}

}  // namespace

Instance lower(const Problem& problem, std::shared_ptr<cost::PriceCache> prices) {
  const InstanceFile* file = problem.instance_file();
  Instance instance = file == nullptr ? lower_batch(problem, std::move(prices))
                                      : instance_from_json(*file->content, file->path);
  instance.objective = problem.objective;
  const double theta = problem.theta_in_force();
  instance.theta = problem.theta_unit == ThetaUnit::ms_per_raw_omega ? theta * 1e-3 : theta;
  instance.max_omega = problem.max_omega;
  instance.allow_empty_stage = problem.may_have_empty_stages();
  instance.allow_single_stage = problem.may_leave_out();
  if (problem.runtime == Runtime::vllm) instance.stage_rule = StageRule::node_by_node;
  if (problem.runtime == Runtime::llama_cpp) instance.stage_rule = StageRule::one_node;
  for (std::size_t i = 0; i < problem.constraints.size(); ++i) {
    instance.rows.push_back(
        resolve(problem.constraints[i], instance, fmt::format("problem.constraints[{}]", i + 1)));
  }
  return instance;
}

std::vector<std::size_t> order_from_names(const Instance& instance,
                                          const std::vector<std::string>& names) {
  std::vector<std::size_t> order;
  std::vector<std::int32_t> left;
  std::vector<std::string> known;
  for (const DeviceGroup& group : instance.groups) {
    left.push_back(group.count);
    known.push_back(group.name);
  }
  for (std::size_t k = 0; k < names.size(); ++k) {
    const std::size_t at = names[k].find('@');
    const std::string name = names[k].substr(0, at);
    const std::string node = at == std::string::npos ? "" : names[k].substr(at + 1);
    std::optional<std::size_t> found;
    bool exists = false;
    for (std::size_t g = 0; g < instance.groups.size() && !found; ++g) {
      if (instance.groups[g].name != name || (!node.empty() && instance.groups[g].node != node)) {
        continue;
      }
      exists = true;
      if (left[g] > 0) found = g;
    }
    const std::string where = fmt::format("device_order[{}]", k + 1);
    if (!exists) {
      refuse(ErrorCode::not_found, where, "the cluster has no {}{}", quote(names[k]),
             did_you_mean(name, known));
    }
    if (!found) {
      refuse(where, "the cluster has no {} left; name each device at most as often as it is there",
             quote(names[k]));
    }
    --left[*found];
    order.push_back(*found);
  }
  if (order.empty()) {
    refuse("device_order", "it is empty; name at least one device");
  }
  return order;
}

}  // namespace tessera::solver
