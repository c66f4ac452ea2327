#include "path_plan.h"

#include "tessera/solver/moves/assign_bits.h"

namespace tessera::solver::exact {
namespace {

// Devices of a kind differ in their links only; neighbours on the same node have the fast ones.
std::size_t take_group(const SearchSpace& space, std::size_t kind, std::size_t previous,
                       std::vector<std::int32_t>& left) {
  const auto& members = space.kinds()[kind].members;
  std::size_t group = members.front();
  for (auto it = members.rbegin(); it != members.rend(); ++it) {
    if (left[*it] > 0) group = *it;
  }
  if (previous < left.size() && space.kind_of(previous) == kind && left[previous] > 0) {
    group = previous;
  }
  --left[group];
  return group;
}

}  // namespace

Candidate plan_of(const SearchSpace& space, const ConfigTable& table, const Pair& pair,
                  const Path& path) {
  const Instance& in = space.instance();
  Candidate plan;
  plan.prefill_micro_batch_size = pair.prefill_size;
  plan.decode_micro_batch_size = pair.decode_size;
  plan.bit.assign(in.num_layers(), 0);
  std::vector<std::int32_t> left;
  for (const DeviceGroup& group : in.groups) left.push_back(group.count);
  // Only pipelines of the graph of counts leave the groups open.
  std::vector<std::int32_t> used(left.size(), 0);
  bool true_groups = true;
  for (const PathStage& stage : path.stages) {
    if (++used[stage.group] > left[stage.group]) true_groups = false;
  }
  std::size_t previous = left.size();
  for (const PathStage& stage : path.stages) {
    previous = true_groups ? stage.group : take_group(space, stage.kind, previous, left);
    plan.order.push_back(previous);
    plan.first_layer.push_back(stage.start);
    for (std::int32_t cls = 0; stage.length > 0 && cls < in.num_classes; ++cls) {
      std::vector<std::size_t> layers, counts(in.num_bits());
      for (std::size_t i = stage.start; i < stage.start + stage.length; ++i) {
        if (in.layer_class[i] == cls) layers.push_back(i);
      }
      for (std::size_t b = 0; b < in.num_bits(); ++b) {
        counts[b] = table.counts(stage.config)[static_cast<std::size_t>(cls) * in.num_bits() + b];
      }
      assign_bits(in, layers, counts, plan.bit);
    }
  }
  plan.first_layer.push_back(in.num_layers());
  return plan;
}

void drop_idle_devices(const Instance& instance, Candidate& plan) {
  for (std::size_t k = plan.order.size(); k-- > 0;) {
    if (plan.first_layer[k] != plan.first_layer[k + 1]) continue;
    Candidate without = plan;
    without.order.erase(without.order.begin() + static_cast<std::ptrdiff_t>(k));
    without.first_layer.erase(without.first_layer.begin() + static_cast<std::ptrdiff_t>(k));
    if (evaluate(instance, without).objective <= evaluate(instance, plan).objective) {
      plan = std::move(without);
    }
  }
}

}  // namespace tessera::solver::exact
