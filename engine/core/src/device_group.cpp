#include "tessera/core/device_group.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/text.h"

namespace tessera {

std::vector<std::size_t> one_of_each_type(const Cluster& cluster,
                                          const std::vector<std::size_t>& members) {
  std::vector<std::size_t> first;
  for (const std::size_t i : members) {
    const bool is_known = std::any_of(first.begin(), first.end(), [&](std::size_t other) {
      return cluster.devices[other].device.name == cluster.devices[i].device.name;
    });
    if (!is_known) first.push_back(i);
  }
  return first;
}

std::string group_type(const Cluster& cluster, const std::vector<std::size_t>& members) {
  const auto name_of = [&](std::size_t k) -> const std::string& {
    return cluster.devices[members[k]].device.name;
  };
  if (one_of_each_type(cluster, members).size() == 1) return name_of(0);
  std::vector<std::string> runs;
  for (std::size_t k = 0, end = 0; k < members.size(); k = end) {
    while (end < members.size() && name_of(end) == name_of(k)) ++end;
    runs.push_back(group_name(name_of(k), static_cast<std::int64_t>(end - k)));
  }
  return join(runs, "+");
}

std::string group_name(const std::string& group_type, std::int64_t degree) {
  const bool is_unlike = group_type.find('+') != std::string::npos;
  return degree == 1 || is_unlike ? group_type : fmt::format("{}x{}", degree, group_type);
}

std::vector<std::string> types_in(const std::string& group_type) {
  std::vector<std::string> types;
  if (group_type.find('+') == std::string::npos) return {group_type};
  for (std::size_t at = 0; at <= group_type.size();) {
    const std::size_t end = std::min(group_type.find('+', at), group_type.size());
    std::string type = group_type.substr(at, end - at);
    const std::size_t digits = type.find_first_not_of("0123456789");
    const bool has_count = digits > 0 && digits != std::string::npos && type[digits] == 'x';
    if (has_count) type.erase(0, digits + 1);
    if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
    at = end + 1;
  }
  return types;
}

}  // namespace tessera
