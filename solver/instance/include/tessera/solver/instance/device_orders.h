#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/solver/instance/stage_rule.h"

namespace tessera::solver {

/// Devices with most memory first, as far as the instance's stage rule lets them.
std::vector<std::size_t> devices_by_memory(const Instance& instance);

/// Hands out every distinct order of an instance's devices that its stage rule allows, one at a
/// time, since there may be millions: GetDeviceOrder of LLM-PQ's Algorithm 1. Devices of a group
/// are alike.
class DeviceOrders {
 public:
  /// @param least_stages orders of fewer devices than the cluster has, too, down to this many; the
  /// orders of all devices come first.
  DeviceOrders(const Instance& instance, std::size_t least_stages);

  /// Groups by position; absent when there are no more.
  std::optional<std::vector<std::size_t>> next();

 private:
  void advance();
  bool choose_fewer();
  void begin();

  StageOrder rule_;
  std::vector<std::int32_t> count_;  ///< [group] that there are
  std::vector<std::int32_t> used_;   ///< [group] in the orders at hand
  std::size_t least_stages_;
  std::vector<std::size_t> order_;
  bool more_ = true;
};

}  // namespace tessera::solver
