// Devices that attend to heads of another device's stage: which those can be, and what is left for
// stages.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/solver/problem/problem.h"

namespace tessera::solver {
namespace {

void check_attention(const BatchProblem& batch) {
  if (batch.attention.empty()) return;
  if (const auto reason = cost::why_no_attention_elsewhere(batch.model)) {
    refuse(ErrorCode::unsupported, "attention", "{}", *reason);
  }
  std::set<std::size_t> taken;
  for (const DividedAttention& divided : batch.attention) {
    for (const std::size_t i : {divided.device, divided.elsewhere.device}) {
      if (i >= batch.cluster.devices.size()) {
        refuse("attention", "there is no device {}, there are {}", i, batch.cluster.devices.size());
      }
      if (!taken.insert(i).second) {
        refuse("attention",
               "device {} ({}) has two tasks: who attends to heads of a stage has no stage, and "
               "serves no other one",
               i, batch.device(i).name);
      }
    }
    if (divided.elsewhere.ratio > 0 && divided.elsewhere.ratio <= 1) continue;
    refuse(ErrorCode::out_of_range, "attention.ratio",
           "{}; a share of the KV heads in (0, 1] belongs here", divided.elsewhere.ratio);
  }
}

/// The group that has the device as one of its members, which it must be alone.
std::vector<MeshGroup>::iterator group_with(std::vector<MeshGroup>& groups, std::size_t device) {
  for (auto group = groups.begin(); group != groups.end(); ++group) {
    for (const auto& members : group->members) {
      if (std::find(members.begin(), members.end(), device) == members.end()) continue;
      if (members.size() == 1) return group;
      refuse(ErrorCode::unsupported, "attention",
             "device {} is one of the tensor-parallel group {}, whose heads are divided already; "
             "plan with tensor_parallel = 1",
             device, group->name);
    }
  }
  refuse("attention", "device {} is in no group of the mesh", device);
}

}  // namespace

std::optional<cost::AttentionElsewhere> attention_of(const BatchProblem& batch,
                                                     std::size_t device) {
  for (const DividedAttention& divided : batch.attention) {
    if (divided.device == device) return divided.elsewhere;
  }
  return std::nullopt;
}

std::vector<MeshGroup> groups_of(const BatchProblem& batch) {
  check_attention(batch);
  std::vector<MeshGroup> groups = mesh_groups(batch.cluster, batch.mesh);
  const auto take = [&](std::size_t device) {
    const auto group = group_with(groups, device);
    std::erase(group->members, std::vector{device});
    return group;
  };
  for (const DividedAttention& divided : batch.attention) {
    take(divided.elsewhere.device);
    const auto group = take(divided.device);
    MeshGroup own{group->name, 1, {{divided.device}}};
    groups.insert(group + 1, std::move(own));
  }
  std::erase_if(groups, [](const MeshGroup& group) { return group.members.empty(); });
  return groups;
}

cost::MemoryAccount attender_memory(const BatchProblem& batch,
                                    const cost::AttentionElsewhere& attention,
                                    std::int64_t first_layer, std::int64_t num_layers,
                                    std::int64_t prefill_micro_batch_size,
                                    std::int64_t decode_micro_batch_size) {
  const cost::MemoryQuery query = memory_query(batch);
  cost::MemoryAccount account = cost::empty_account(batch.device(attention.device), query);
  for (std::int64_t i = 0; i < num_layers; ++i) {
    const LayerShape moved = cost::moved_of(batch.model.layer(first_layer + i), attention.ratio);
    account.kv_bytes += cost::layer_kv_bytes(moved, batch.workload, query);
    account.activation_bytes =
        std::max(account.activation_bytes,
                 cost::attention_buffer_bytes(moved, batch.workload, prefill_micro_batch_size,
                                              decode_micro_batch_size, query));
  }
  return account;
}

std::optional<Violation> find_full_attender(const BatchProblem& batch, const Candidate& candidate) {
  if (batch.attention.empty()) return std::nullopt;
  const auto members = stage_members(batch, candidate.order);
  for (std::size_t k = 0; k < members.size(); ++k) {
    const auto attention = attention_of(batch, members[k].front());
    if (!attention) continue;
    const auto first = static_cast<std::int64_t>(candidate.first_layer[k]);
    const cost::MemoryAccount account = attender_memory(
        batch, *attention, first, static_cast<std::int64_t>(candidate.first_layer[k + 1]) - first,
        candidate.prefill_micro_batch_size, candidate.decode_micro_batch_size);
    const double usable =
        cost::empty_account(batch.device(attention->device), memory_query(batch)).left_bytes();
    if (account.kv_bytes + account.activation_bytes <= usable * (1 + kMemorySlack)) continue;
    return Violation{
        "memory", fmt::format("{} has to hold {} of KV cache and {} of buffers for heads of "
                              "stage {}, and has {}; a smaller attention.ratio leaves it less",
                              batch.device(attention->device).name, format_bytes(account.kv_bytes),
                              format_bytes(account.activation_bytes), k + 1, format_bytes(usable))};
  }
  return std::nullopt;
}

std::vector<std::size_t> groups_on(const BatchProblem& batch,
                                   const std::vector<std::size_t>& devices) {
  const std::vector<MeshGroup> groups = groups_of(batch);
  const auto group_of = [&](std::size_t device) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const auto& members : groups[g].members) {
        if (members.front() == device) return g;
      }
    }
    refuse("attention", "no stage can be on device {}", device);
  };
  std::vector<std::size_t> order;
  for (const std::size_t device : devices) order.push_back(group_of(device));
  return order;
}

}  // namespace tessera::solver
