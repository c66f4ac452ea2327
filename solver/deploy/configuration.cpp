#include "tessera/solver/deploy/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tessera::solver {
namespace {

using Group = std::vector<std::size_t>;

/// Takes pipelines of groups, first of one node each, then of what these leave over.
class Taking {
 public:
  Taking(std::size_t num_stages, std::size_t num_devices)
      : num_stages_(num_stages), num_devices_(num_devices) {}

  void take(const std::vector<Group>& groups) {
    std::size_t next = 0;
    for (; next + num_stages_ <= groups.size() && !done(); next += num_stages_) {
      for (std::size_t k = next; k < next + num_stages_; ++k) {
        chosen_.insert(chosen_.end(), groups[k].begin(), groups[k].end());
      }
    }
    rest_.insert(rest_.end(), groups.begin() + static_cast<std::ptrdiff_t>(next), groups.end());
  }
  void take_rest() { take(std::exchange(rest_, {})); }

  bool done() const { return chosen_.size() >= num_devices_; }
  std::vector<std::size_t> sorted() && {
    std::sort(chosen_.begin(), chosen_.end());
    return std::move(chosen_);
  }

 private:
  std::size_t num_stages_, num_devices_;
  std::vector<std::size_t> chosen_;
  std::vector<Group> rest_;
};

}  // namespace

std::int64_t DeviceType::widest() const {
  std::size_t most = 0;
  for (const OnNode& node : nodes) most = std::max(most, node.devices.size());
  return static_cast<std::int64_t>(most);
}

std::vector<std::shared_ptr<const DeviceType>> device_types(const Cluster& cluster) {
  std::vector<std::shared_ptr<DeviceType>> types;
  for (std::size_t i = 0; i < cluster.devices.size(); ++i) {
    const ClusterDevice& slot = cluster.devices[i];
    auto type = std::find_if(types.begin(), types.end(),
                             [&](const auto& known) { return known->name == slot.device.name; });
    if (type == types.end()) {
      type = types.insert(types.end(), std::make_shared<DeviceType>());
      (*type)->name = slot.device.name;
      (*type)->price_usd_per_h = slot.device.price_usd_per_h;
      (*type)->compute_capability = slot.device.compute_capability;
    }
    std::vector<DeviceType::OnNode>& nodes = (*type)->nodes;
    auto node = std::find_if(nodes.begin(), nodes.end(), [&](const DeviceType::OnNode& known) {
      return known.node_index == slot.node_index;
    });
    if (node == nodes.end()) node = nodes.insert(nodes.end(), {slot.node_index, {}});
    node->devices.push_back(i);
    ++(*type)->count;
  }
  return {types.begin(), types.end()};
}

std::optional<double> Configuration::usd_per_h(std::int64_t count) const {
  if (!type->price_usd_per_h) return std::nullopt;
  return static_cast<double>(count * gpus()) * *type->price_usd_per_h;
}

std::string Configuration::name() const {
  return fmt::format("{}{}{}, {} bits{}",
                     tensor_parallel > 1 ? fmt::format("{}x", tensor_parallel) : "", type->name,
                     pipeline_parallel > 1 ? fmt::format(" x {} stages", pipeline_parallel) : "",
                     bitwidth, kv_bitwidth < 16 ? fmt::format(", KV cache {}", kv_bitwidth) : "");
}

std::string Configuration::shape() const {
  std::string text = type->name;
  if (gpus() > 1) text += " ";
  if (tensor_parallel > 1) text += fmt::format("TP{}", tensor_parallel);
  if (pipeline_parallel > 1) text += fmt::format("PP{}", pipeline_parallel);
  return text;
}

std::optional<std::vector<std::size_t>> devices_for(const Configuration& configuration,
                                                    std::int64_t count, const UsedDevices& used) {
  const auto degree = static_cast<std::size_t>(configuration.tensor_parallel);
  Taking taking(static_cast<std::size_t>(configuration.pipeline_parallel),
                static_cast<std::size_t>(count * configuration.gpus()));
  for (const DeviceType::OnNode& node : configuration.type->nodes) {
    std::vector<Group> groups;
    Group open;
    for (const std::size_t device : node.devices) {
      if (device < used.size() && used[device]) continue;
      open.push_back(device);
      if (open.size() == degree) groups.push_back(std::exchange(open, {}));
    }
    taking.take(groups);
  }
  taking.take_rest();
  if (!taking.done()) return std::nullopt;
  return std::move(taking).sorted();
}

std::int64_t capacity_of(const Configuration& configuration) {
  std::int64_t count = configuration.type->count / configuration.gpus();
  while (count > 0 && !devices_for(configuration, count, {})) --count;
  return count;
}

}  // namespace tessera::solver
