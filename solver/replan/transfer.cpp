// Weights in bytes, and the time that loading them takes.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/cost/memory.h"
#include "tessera/solver/replan/replan.h"

namespace tessera::solver {

WeightBytes weight_bytes(const Problem& problem, const Instance& instance) {
  WeightBytes weights;
  weights.embedding = instance.embedding_bytes;
  const BatchProblem* batch = problem.batch();
  if (batch == nullptr) {
    weights.layer = instance.layer_bytes;
    return weights;
  }
  const cost::MemoryQuery query = memory_query(*batch);
  for (const LayerShape& layer : batch->model.layer_classes) {
    for (const std::int32_t bit : batch->bitwidths) {
      weights.layer.push_back(cost::layer_weight_bytes(layer, bit, query));
    }
  }
  return weights;
}

namespace {

/// Loads of one plan: what each way carries, and how long the slowest is busy.
class Loading {
 public:
  Loading(const BatchProblem& batch, const Instance& instance, const Candidate& plan,
          const Moves& moves, const std::vector<Holding>& holdings)
      : cluster_(batch.cluster),
        instance_(instance),
        plan_(plan),
        moves_(moves),
        holdings_(holdings),
        members_(stage_members(batch, plan.order)),
        disk_s_(cluster_.nodes.size(), 0),
        network_s_(cluster_.nodes.size(), 0) {}

  Transfer of(const WeightBytes& weights) {
    for (std::size_t k = 0; k < members_.size(); ++k) {
      double device_s = 0, layers_bytes = 0;
      for (std::size_t layer = plan_.first_layer[k]; layer < plan_.first_layer[k + 1]; ++layer) {
        const std::size_t bit = plan_.bit[layer];
        if (holds(k, layer, instance_.bitwidths[bit])) continue;
        const auto cls = static_cast<std::size_t>(instance_.layer_class[layer]);
        const double bytes = weights.layer[cls * instance_.num_bits() + bit];
        device_s += load(k, bytes, source_of(k, layer, instance_.bitwidths[bit]));
        layers_bytes += bytes;
      }
      device_s += load(k, std::max(0.0, moves_.loaded_bytes[k] - layers_bytes), {});  // embeddings
      transfer_.seconds = std::max(transfer_.seconds, device_s);
    }
    for (std::size_t n = 0; n < disk_s_.size(); ++n)
      transfer_.seconds = std::max({transfer_.seconds, disk_s_[n], network_s_[n]});
    return std::move(transfer_);
  }

 private:
  bool holds(std::size_t stage, std::size_t layer, std::int32_t bitwidth) const {
    if (!moves_.from[stage]) return false;
    const Holding& h = holdings_[*moves_.from[stage]];
    return layer >= h.first_layer && layer < h.first_layer + h.bitwidths.size() &&
           h.bitwidths[layer - h.first_layer] == bitwidth;
  }
  std::size_t node_of(std::size_t stage) const {
    return cluster_.devices[members_[stage].front()].node_index;
  }
  double pcie_of(std::size_t stage) const {
    return cluster_.devices[members_[stage].front()].device.pcie_bytes_per_s;
  }
  double disk_of(std::size_t stage) const {
    return cluster_.nodes[node_of(stage)].disk_bytes_per_s.value_or(kAssumedDiskBytesPerS);
  }
  /// Into one device of the stage.
  double link_rate(std::size_t from, std::size_t stage) const {
    const Link link = cluster_.link(members_[from].front(), members_[stage].front());
    return link.kind == "nvlink" ? link.bytes_per_s : std::min(link.bytes_per_s, pcie_of(stage));
  }

  /// The stage that hands the layer over fastest; none where the disk is faster.
  std::optional<std::size_t> source_of(std::size_t stage, std::size_t layer,
                                       std::int32_t bitwidth) const {
    std::optional<std::size_t> source;
    double rate = std::min(disk_of(stage), pcie_of(stage));
    for (std::size_t m = 0; m < members_.size(); ++m) {
      if (m == stage || !holds(m, layer, bitwidth) || link_rate(m, stage) < rate) continue;
      source = m;
      rate = link_rate(m, stage);
    }
    return source;
  }

  /// Seconds that a device of the stage is busy with its share.
  double load(std::size_t stage, double bytes, std::optional<std::size_t> source) {
    if (bytes <= 0) return 0;
    const auto devices = static_cast<double>(members_[stage].size());
    const std::size_t node = node_of(stage);
    if (!source) {
      disk_s_[node] += bytes / disk_of(stage);
      assume_disk(node);
      return bytes / devices / std::min(disk_of(stage), pcie_of(stage));
    }
    if (node_of(*source) != node) network_s_[node] += bytes / link_rate(*source, stage);
    return bytes / devices / link_rate(*source, stage);
  }

  void assume_disk(std::size_t node) {
    if (cluster_.nodes[node].disk_bytes_per_s) return;
    std::vector<std::string>& names = transfer_.nodes_with_assumed_disk;
    const std::string& name = cluster_.nodes[node].name;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }

  const Cluster& cluster_;
  const Instance& instance_;
  const Candidate& plan_;
  const Moves& moves_;
  const std::vector<Holding>& holdings_;
  std::vector<std::vector<std::size_t>> members_;
  std::vector<double> disk_s_, network_s_;  ///< [node] busy
  Transfer transfer_;
};

}  // namespace

Transfer transfer(const BatchProblem& batch, const Instance& instance, const Candidate& plan,
                  const Moves& moves, const std::vector<Holding>& holdings,
                  const WeightBytes& weights) {
  return Loading(batch, instance, plan, moves, holdings).of(weights);
}

}  // namespace tessera::solver
