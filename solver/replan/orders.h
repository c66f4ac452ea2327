#pragma once

#include <optional>
#include <vector>

#include "tessera/solver/replan/replan.h"

namespace tessera::solver::replan_detail {

/// Devices by position, and what each of them holds already.
struct Setting {
  std::vector<std::size_t> order;                ///< groups
  std::vector<std::optional<std::size_t>> from;  ///< holdings
  bool operator==(const Setting&) const = default;
};

/// The earlier order without the devices that are gone (every choice where several could be meant)
/// and with none, some or all of the new ones put in at every position; about `most` of them.
std::vector<Setting> settings_of(const Instance& instance, const std::vector<Holding>& holdings,
                                 std::size_t most);

}  // namespace tessera::solver::replan_detail
