// Why there is no offloading plan: what stands in the way of any, and what lacks memory.

#include <fmt/format.h>

#include <algorithm>

#include "stage.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/solver/offload/offload.h"

namespace tessera::solver {

std::optional<Violation> find_offload_obstacle(const Problem& problem, const Instance& instance,
                                               const Candidate& candidate,
                                               const PlanOffload& settings) {
  const BatchProblem* batch = problem.batch();
  if (batch == nullptr) {
    return Violation{"offload",
                     "offloading needs a model, a cluster and a workload; an instance file says "
                     "nothing of host memory, disks and transfers"};
  }
  if (!batch->attention.empty()) {
    return Violation{"offload",
                     "heads of a stage are on another device, and offloading would have them on "
                     "the host as well, which stands where that device does; do one of them"};
  }
  for (const MeshGroup& group : groups_of(*batch)) {
    if (group.degree == 1) continue;
    return Violation{"tensor_parallel",
                     fmt::format("FlexGen's cost model knows no tensor-parallel group such as {}; "
                                 "plan with tensor_parallel = 1",
                                 group.name)};
  }
  if (candidate.first_layer.back() != instance.num_layers()) {
    return Violation{"contiguity",
                     fmt::format("the stages hold {} layers of {}", candidate.first_layer.back(),
                                 instance.num_layers())};
  }
  for (std::size_t k = 0; k < candidate.order.size(); ++k) {
    if (candidate.first_layer[k] == candidate.first_layer[k + 1])
      return Violation{"empty_stage", fmt::format("stage {} holds no decoder layer", k + 1)};
  }
  if (candidate.prefill_micro_batch_size > instance.batch_size) {
    return Violation{"micro_batch",
                     fmt::format("micro-batches of {} are more than the batch of {}",
                                 candidate.prefill_micro_batch_size, instance.batch_size)};
  }
  if (candidate.prefill_micro_batch_size != candidate.decode_micro_batch_size) {
    return Violation{
        "micro_batch",
        fmt::format("FlexGen has one block size for both phases, not {} in prefill "
                    "and {} in decode; fix one of them, or both to the same",
                    candidate.prefill_micro_batch_size, candidate.decode_micro_batch_size)};
  }
  if (settings.gpu_batch_size > candidate.prefill_micro_batch_size) {
    return Violation{"micro_batch",
                     fmt::format("a GPU batch of {} does not fit into micro-batches of {}",
                                 settings.gpu_batch_size, candidate.prefill_micro_batch_size)};
  }
  const Cluster& cluster = batch->cluster;
  for (const auto& members : stage_members(*batch, candidate.order)) {
    const ClusterDevice& slot = cluster.devices[members.front()];
    const Node& node = cluster.nodes[slot.node_index];
    if (!node.host_memory_bytes) {
      return Violation{"offload",
                       fmt::format("the cluster does not say how much memory node {} has; give "
                                   "host_memory_gib, and disk_bytes_per_s where there is a disk",
                                   quote(node.name))};
    }
    if (batch->kernel_set.find(slot.device, offload::kComputeBits) == nullptr) {
      return Violation{"kernel",
                       fmt::format("FlexGen computes at 16 bits, for which {} has no kernel in "
                                   "kernel set {}",
                                   slot.device.name, quote(batch->kernel_set.name))};
    }
  }
  return std::nullopt;
}

Violation explain_no_offload(const OffloadModel& model, const PlanOffload& settings) {
  // Everything on the host: the least that a device can hold.
  const TierRatios away{0, 1, 0};
  const StageOffload nothing_here{away, away, away, 0, 0};
  std::vector<double> on_host(model.host_bytes.size(), 0);
  for (std::size_t k = 0; k < model.stages.size(); ++k) {
    const OffloadStage& stage = model.stages[k];
    const double least =
        std::max(stage.device_prefill.at(nothing_here), stage.device_decode.at(nothing_here));
    if (least > stage.usable_bytes) {
      return {"memory",
              fmt::format("stage {} needs {} for embeddings, buffers and a GPU batch of {} even "
                          "with everything else offloaded, its device has {}",
                          k + 1, format_bytes(least), settings.gpu_batch_size,
                          format_bytes(stage.usable_bytes))};
    }
    on_host[stage.node_index] +=
        std::max(stage.host_prefill.at(nothing_here), stage.host_decode.at(nothing_here)) -
        (stage.usable_bytes - least);
  }
  for (std::size_t n = 0; n < on_host.size(); ++n) {
    if (on_host[n] <= model.host_bytes[n]) continue;
    return {"memory",
            fmt::format("of what its stages hold, node {} has to keep at least {}, but may use {} "
                        "({:.0f} % of its memory), and its disk cannot take the rest",
                        quote(model.node_names[n]), format_bytes(on_host[n]),
                        format_bytes(model.host_bytes[n]), 100 * settings.host_memory_ratio)};
  }
  return {"memory", "device, host and disk together do not hold the model and its cache"};
}

}  // namespace tessera::solver
