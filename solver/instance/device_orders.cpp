#include "tessera/solver/instance/device_orders.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>
#include <utility>

namespace tessera::solver {

// Nodes with fewer devices first, so that none has fewer stages than the one before it; or the one
// node that holds most, of those with enough devices.
std::vector<std::size_t> devices_by_memory(const Instance& instance) {
  const StageOrder rule(instance);
  std::vector<double> count(rule.num_nodes()), bytes(rule.num_nodes());
  std::vector<std::size_t> devices;
  for (std::size_t g = 0; g < instance.groups.size(); ++g) {
    const DeviceGroup& group = instance.groups[g];
    devices.insert(devices.end(), static_cast<std::size_t>(group.count), g);
    count[rule.node_of(g)] += group.count;
    bytes[rule.node_of(g)] += group.count * group.usable_bytes;
  }
  const bool by_node = instance.stage_rule != StageRule::any;
  const auto rank = [&](std::size_t g) {
    const std::size_t node = by_node ? rule.node_of(g) : 0;
    return std::tuple{by_node ? count[node] : 0, node, -instance.groups[g].usable_bytes};
  };
  std::stable_sort(devices.begin(), devices.end(),
                   [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  if (instance.stage_rule == StageRule::one_node) {
    const auto least = static_cast<double>(instance.least_stages());
    const auto worth = [&](std::size_t node) {
      return std::pair(count[node] >= least, bytes[node]);
    };
    std::size_t best = 0;
    for (std::size_t node = 1; node < count.size(); ++node) {
      if (worth(node) > worth(best)) best = node;
    }
    std::erase_if(devices, [&](std::size_t g) { return rule.node_of(g) != best; });
    const bool is_alone = instance.groups[devices.front()].shares_layers;
    if (is_alone) devices.resize(1);
  }
  return devices;
}

DeviceOrders::DeviceOrders(const Instance& instance, std::size_t least_stages)
    : rule_(instance), least_stages_(std::max<std::size_t>(1, least_stages)) {
  for (const DeviceGroup& group : instance.groups) count_.push_back(group.count);
  used_ = count_;
  begin();
  more_ = order_.size() >= least_stages_;
}

std::optional<std::vector<std::size_t>> DeviceOrders::next() {
  while (more_) {
    const auto breach = rule_.breach(order_);
    std::vector<std::size_t> order = order_;
    // All orders that begin alike up to the breach break the rule too: the last of them.
    if (breach) {
      std::sort(order_.begin() + static_cast<std::ptrdiff_t>(*breach) + 1, order_.end(),
                std::greater<>());
    }
    advance();
    if (!breach) return order;
  }
  return std::nullopt;
}

void DeviceOrders::advance() {
  if (!std::next_permutation(order_.begin(), order_.end())) more_ = choose_fewer();
}

void DeviceOrders::begin() {
  order_.clear();
  for (std::size_t g = 0; g < used_.size(); ++g) {
    order_.insert(order_.end(), static_cast<std::size_t>(used_[g]), g);
  }
}

// The next smaller choice of devices, counted down like the digits of a number.
bool DeviceOrders::choose_fewer() {
  std::size_t left = 0;
  do {
    std::size_t g = 0;
    while (g < used_.size() && used_[g] == 0) {
      used_[g] = count_[g];
      ++g;
    }
    if (g == used_.size()) return false;
    --used_[g];
    left = static_cast<std::size_t>(std::accumulate(used_.begin(), used_.end(), 0));
  } while (left < least_stages_);
  begin();
  return true;
}

}  // namespace tessera::solver
