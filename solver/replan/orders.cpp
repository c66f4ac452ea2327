#include "orders.h"

#include <algorithm>

namespace tessera::solver::replan_detail {
namespace {

std::optional<std::size_t> group_of(const Instance& instance, const Holding& holding) {
  for (std::size_t g = 0; g < instance.groups.size(); ++g) {
    if (instance.groups[g].name == holding.device && instance.groups[g].node == holding.node) {
      return g;
    }
  }
  return std::nullopt;
}

std::int64_t used(const Setting& setting, std::size_t group) {
  return std::count(setting.order.begin(), setting.order.end(), group);
}

void keep(std::vector<Setting>& list, Setting setting, std::size_t most) {
  if (list.size() < most && std::find(list.begin(), list.end(), setting) == list.end()) {
    list.push_back(std::move(setting));
  }
}

// Every way to take one device of the group out.
std::vector<Setting> without_one(const std::vector<Setting>& settings, std::size_t group,
                                 std::size_t most) {
  std::vector<Setting> fewer;
  for (const Setting& setting : settings) {
    for (std::size_t k = 0; k < setting.order.size(); ++k) {
      if (setting.order[k] != group) continue;
      Setting next = setting;
      next.order.erase(next.order.begin() + static_cast<std::ptrdiff_t>(k));
      next.from.erase(next.from.begin() + static_cast<std::ptrdiff_t>(k));
      keep(fewer, std::move(next), most);
    }
  }
  return fewer;
}

// Every way to put one empty device of the group in.
std::vector<Setting> with_one(const std::vector<Setting>& settings, std::size_t group,
                              std::size_t most) {
  std::vector<Setting> more;
  for (const Setting& setting : settings) {
    for (std::size_t k = 0; k <= setting.order.size(); ++k) {
      Setting next = setting;
      next.order.insert(next.order.begin() + static_cast<std::ptrdiff_t>(k), group);
      next.from.insert(next.from.begin() + static_cast<std::ptrdiff_t>(k), std::nullopt);
      keep(more, std::move(next), most);
    }
  }
  return more;
}

}  // namespace

std::vector<Setting> settings_of(const Instance& instance, const std::vector<Holding>& holdings,
                                 std::size_t most) {
  Setting there;
  for (std::size_t h = 0; h < holdings.size(); ++h) {
    if (const auto group = group_of(instance, holdings[h])) {
      there.order.push_back(*group);
      there.from.emplace_back(h);
    }
  }
  std::vector<Setting> settings{there}, all;
  for (std::size_t g = 0; g < instance.groups.size(); ++g) {
    for (std::int64_t i = used(there, g); i > instance.groups[g].count; --i) {
      settings = without_one(settings, g, most);
    }
  }
  all = settings;  // new devices may stay idle
  for (std::size_t g = 0; g < instance.groups.size(); ++g) {
    for (std::int64_t i = used(there, g); i < instance.groups[g].count; ++i) {
      settings = with_one(settings, g, most);
      for (const Setting& setting : settings) keep(all, setting, most);
    }
  }
  all.erase(std::remove_if(all.begin(), all.end(),
                           [&](const Setting& s) {
                             return s.order.empty() || s.order.size() > instance.num_layers();
                           }),
            all.end());
  return all;
}

}  // namespace tessera::solver::replan_detail
