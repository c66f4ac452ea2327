#include "tessera/solver/instance/device_orders.h"

#include <algorithm>
#include <numeric>

namespace tessera::solver {

DeviceOrders::DeviceOrders(const Instance& instance, std::size_t least_stages)
    : least_stages_(std::max<std::size_t>(1, least_stages)) {
  for (const DeviceGroup& group : instance.groups) count_.push_back(group.count);
  used_ = count_;
  begin();
  more_ = order_.size() >= least_stages_;
}

std::optional<std::vector<std::size_t>> DeviceOrders::next() {
  if (!more_) return std::nullopt;
  std::vector<std::size_t> order = order_;
  if (!std::next_permutation(order_.begin(), order_.end())) more_ = choose_fewer();
  return order;
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
