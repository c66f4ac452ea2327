#include "tessera/solver/problem/named_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::solver {
namespace {

constexpr double kWholeSlack = 1e-9;  ///< of a head

class Devices {
 public:
  explicit Devices(const Cluster& cluster)
      : cluster_(cluster), taken_(cluster.devices.size(), false) {}

  std::size_t take(const std::string& name, const std::string& where) {
    const std::size_t at = name.find('@');
    const std::string type = name.substr(0, at);
    const std::string node = at == std::string::npos ? "" : name.substr(at + 1);
    std::vector<std::string> known;
    for (std::size_t i = 0; i < cluster_.devices.size(); ++i) {
      const ClusterDevice& slot = cluster_.devices[i];
      known.push_back(slot.device.name);
      if (taken_[i] || slot.device.name != type) continue;
      if (!node.empty() && cluster_.nodes[slot.node_index].name != node) continue;
      taken_[i] = true;
      return i;
    }
    if (std::find(known.begin(), known.end(), type) == known.end()) {
      refuse(ErrorCode::not_found, where, "the cluster has no {}{}", quote(name),
             did_you_mean(type, known));
    }
    refuse(where, "the cluster has no {} left; who attends to heads of a stage has none of its own",
           quote(name));
  }

 private:
  const Cluster& cluster_;
  std::vector<bool> taken_;
};

bool is_whole(const ModelShape& model, double ratio) {
  return std::all_of(model.layer_classes.begin(), model.layer_classes.end(),
                     [&](const LayerShape& layer) {
                       const double heads = ratio * static_cast<double>(layer.num_kv_heads);
                       return std::fabs(heads - std::round(heads)) <= kWholeSlack;
                     });
}

}  // namespace

double whole_heads_ratio(const ModelShape& model, double ratio, const std::string& stage,
                         std::vector<std::string>& notes) {
  if (is_whole(model, ratio)) return ratio;
  const LayerShape& layer = *std::find_if(model.layer_classes.begin(), model.layer_classes.end(),
                                          [](const LayerShape& each) { return each.attends(); });
  const std::int64_t heads = cost::kv_heads_elsewhere(layer, ratio);
  const double whole = static_cast<double>(heads) / static_cast<double>(layer.num_kv_heads);
  notes.push_back(
      fmt::format("attention of {}: a ratio of {} is no number of its {} KV heads; taken as {} of "
                  "them ({:.4g})",
                  stage, ratio, layer.num_kv_heads, heads, whole));
  return whole;
}

PlacedAttention place_attention(const BatchProblem& batch, const std::vector<NamedStage>& stages,
                                const std::string& where) {
  PlacedAttention placed;
  Devices devices(batch.cluster);
  const auto at = [&](std::size_t k) { return fmt::format("{}[{}]", where, k + 1); };
  for (std::size_t k = 0; k < stages.size(); ++k) {
    placed.stages.push_back(devices.take(stages[k].device, at(k) + ".device"));
  }
  for (std::size_t k = 0; k < stages.size(); ++k) {
    if (!stages[k].attention) continue;
    const std::size_t device = devices.take(stages[k].attention->device, at(k) + ".attention");
    const double ratio = whole_heads_ratio(batch.model, stages[k].attention->ratio,
                                           fmt::format("stage {}", k), placed.notes);
    if (ratio > 0) placed.attention.push_back({placed.stages[k], {device, ratio}});
  }
  return placed;
}

}  // namespace tessera::solver
