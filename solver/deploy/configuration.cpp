#include "tessera/solver/deploy/configuration.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/units.h"

namespace tessera::solver {
namespace {

std::int64_t usual_tokens(const Device& device) {
  const bool is_a100 = device.name.find("A100") != std::string::npos;
  return device.memory_bytes >= 70 * kGiB && !is_a100 ? 4 * kUsualTokens : kUsualTokens;
}

/// ", experts spread over 8, attention in 8 parts"
std::string words(const cost::GroupSplit& split) {
  std::string text;
  if (split.expert_parallel > 1) {
    text += fmt::format(", experts spread over {}", split.expert_parallel);
  }
  if (split.attention_data_parallel > 1) {
    text += fmt::format(", attention in {} parts", split.attention_data_parallel);
  }
  return text;
}

}  // namespace

DeviceTypes device_types(const Cluster& cluster) {
  std::vector<std::shared_ptr<TypeDevices>> types;
  for (const ClusterDevice& slot : cluster.devices) {
    auto type = std::find_if(types.begin(), types.end(),
                             [&](const auto& known) { return known->name == slot.device.name; });
    if (type == types.end()) {
      type = types.insert(types.end(), std::make_shared<TypeDevices>());
      (*type)->name = slot.device.name;
      (*type)->types = {slot.device.name};
      (*type)->price_usd_per_h = 0;
      (*type)->compute_capability = slot.device.compute_capability;
      (*type)->usual_tokens = usual_tokens(slot.device);
      (*type)->on_node.resize(cluster.nodes.size());
    }
    ++(*type)->on_node[slot.node_index];
    ++(*type)->count;
    std::optional<double>& sum = (*type)->price_usd_per_h;
    const std::optional<double>& own = slot.device.price_usd_per_h;
    sum = sum && own ? std::optional(*sum + *own) : std::nullopt;
  }
  // Machines of unlike sizes have unlike prices for the same device: the mean.
  for (const auto& type : types) {
    if (type->price_usd_per_h) *type->price_usd_per_h /= static_cast<double>(type->count);
  }
  return {types.begin(), types.end()};
}

std::shared_ptr<const TypeDevices> joined(const DeviceTypes& types) {
  auto all = std::make_shared<TypeDevices>(*types.front());
  double usd_per_h = 0;
  for (const auto& type : types) {
    if (type != types.front()) {
      all->name += "+" + type->name;
      all->types.push_back(type->name);
      all->count += type->count;
      for (std::size_t i = 0; i < all->on_node.size(); ++i) all->on_node[i] += type->on_node[i];
      all->usual_tokens = std::min(all->usual_tokens, type->usual_tokens);
      all->compute_capability = std::min(all->compute_capability, type->compute_capability);
    }
    usd_per_h += type->price_usd_per_h.value_or(0) * static_cast<double>(type->count);
  }
  all->price_usd_per_h = usd_per_h / static_cast<double>(all->count);
  if (std::any_of(types.begin(), types.end(), [](const auto& t) { return !t->price_usd_per_h; })) {
    all->price_usd_per_h.reset();
  }
  return all;
}

std::optional<double> Configuration::usd_per_h(std::int64_t count) const {
  if (!type->price_usd_per_h) return std::nullopt;
  return static_cast<double>(count * gpus()) * *type->price_usd_per_h;
}

std::string Configuration::name() const {
  return fmt::format(
      "{}{}{}{}, {} bits{}", tensor_parallel > 1 ? fmt::format("{}x", tensor_parallel) : "",
      tensor_parallel > 1 && is_unlike() ? fmt::format("({})", type->name) : type->name,
      pipeline_parallel > 1 ? fmt::format(" x {} stages", pipeline_parallel) : "", words(split),
      bitwidth, kv_bitwidth < 16 ? fmt::format(", KV cache {}", kv_bitwidth) : "");
}

std::string Configuration::shape() const {
  std::string text = type->name;
  if (gpus() > 1) text += " ";
  if (tensor_parallel > 1) text += fmt::format("TP{}", tensor_parallel);
  if (split.expert_parallel > 1) text += fmt::format("EP{}", split.expert_parallel);
  if (split.attention_data_parallel > 1) {
    text += fmt::format("DP{}", split.attention_data_parallel);
  }
  if (pipeline_parallel > 1) text += fmt::format("PP{}", pipeline_parallel);
  return text;
}

DeploymentShape Configuration::placed(std::optional<std::int64_t> count, EngineRole role) const {
  return {.tensor_parallel = tensor_parallel,
          .pipeline_parallel = pipeline_parallel,
          .split = split,
          .replicas = count,
          .bitwidths = {bitwidth},
          .kv_bitwidth = kv_bitwidth,
          .role = role,
          .devices = type->types,
          .stage_layers = stage_layers};
}

}  // namespace tessera::solver
