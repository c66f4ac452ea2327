// The profiles that ship or that a user keeps in folders: which one belongs to a device.

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

#include "tessera/core/cluster.h"
#include "tessera/core/json.h"
#include "tessera/cost/profile.h"

namespace tessera::cost {

std::shared_ptr<const Profile> find_profile(const std::string& device,
                                            const std::string& kernel_set,
                                            const DataFolders& folders) {
  struct Known {
    std::string content;
    std::shared_ptr<const Profile> profile;
  };
  static std::mutex mutex;
  static std::map<std::string, Known> known;
  const std::string path = folders.find("profiles", device + "." + kernel_set);
  if (path.empty()) return nullptr;
  std::string content = read_file(path);
  const std::lock_guard lock(mutex);
  Known& entry = known[path];
  if (entry.profile == nullptr || entry.content != content) {
    auto profile =
        std::make_shared<Profile>(profile_from_json(parse_json(content, path), path, folders));
    profile->path = path;
    entry = {std::move(content), std::move(profile)};
  }
  return entry.profile;
}

std::vector<std::shared_ptr<const Profile>> donor_profiles(const Device& device,
                                                           const std::string& kernel_set,
                                                           const DataFolders& folders) {
  std::vector<std::shared_ptr<const Profile>> donors;
  const std::string ending = "." + kernel_set;
  for (const std::string& name : folders.list("profiles")) {
    if (!name.ends_with(ending)) continue;
    auto donor = find_profile(name.substr(0, name.size() - ending.size()), kernel_set, folders);
    if (donor != nullptr && donor->device.name != device.name) donors.push_back(std::move(donor));
  }
  const auto distance = [&](const Profile& donor) {
    return std::pair(
        std::abs(donor.device.compute_capability - device.compute_capability),
        std::abs(std::log(donor.device.memory_bytes_per_s / device.memory_bytes_per_s)));
  };
  std::stable_sort(donors.begin(), donors.end(),
                   [&](const auto& a, const auto& b) { return distance(*a) < distance(*b); });
  return donors;
}

bool is_known_device(const Device& device, const DataFolders& folders) {
  const std::string path = folders.find("devices", device.name);
  return !path.empty() && to_json(find_device(device.name, folders)) == to_json(device);
}

std::shared_ptr<const Profile> profile_for(const Device& device, const std::string& kernel_set,
                                           const DataFolders& folders) {
  auto profile = find_profile(device.name, kernel_set, folders);
  if (profile != nullptr && is_known_device(device, folders)) return profile;
  auto none = std::make_shared<Profile>();
  none->device = device;
  none->device_by_name = is_known_device(device, folders);
  none->kernel_set = kernel_set;
  return none;
}

}  // namespace tessera::cost
