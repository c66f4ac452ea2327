// The profiles that ship or that a user keeps in folders: which one belongs to a device.

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tessera/core/cluster.h"
#include "tessera/core/file_cache.h"
#include "tessera/core/json.h"
#include "tessera/cost/fit.h"
#include "tessera/cost/kernel_set.h"
#include "tessera/cost/profile.h"

namespace tessera::cost {
namespace {

constexpr std::int32_t kFullBits = 16;

double bandwidth_distance(const Device& a, const Device& b) {
  return std::abs(std::log(a.memory_bytes_per_s / b.memory_bytes_per_s));
}

double compute_distance(const Device& a, const Device& b) {
  return std::abs(std::log(a.flop_per_s.at("fp16") / b.flop_per_s.at("fp16")));
}

// A donor's form holds where work is as heavy for the bandwidth as on the device: an L40S by the
// 3090, whose bandwidth is nearest and which computes at a fifth of its rate, came out at 28 % of
// its peak in prompts. Half: of A6000, 3090 and 4090, each by another, prompts are 3 to 9 % off by
// the donor that this chooses, and 10 to 22 % by the others.
double distance(const Device& a, const Device& b) {
  return bandwidth_distance(a, b) + 0.5 * compute_distance(a, b);
}

// Chips for data centres, with HBM and instructions of their own (6.0, 7.0, 8.0, 9.0 to 11), and
// the others, which share instructions and ratios of arithmetic to bandwidth from 7.5 to 12.1.
bool is_for_data_centres(const Device& gpu) {
  const double capability = gpu.compute_capability;
  return capability == 6 || capability == 7 || capability == 8 ||
         (capability >= 9 && capability < 12);
}

// Kernels are chosen and tuned by generation and by kind of chip, so a donor of the own comes
// first, and rates decide among those that are left. Seventeen runs on rented RTX 5090s
// (../measured/field), tok/s predicted over measured: a mixture at 4 bits and up to 40 requests
// 0.43 to 0.51 by the form of the A100, whose rates are nearest, and 0.84 to 1.01 by that of the
// RTX PRO 6000, the same chip; with 400 requests 0.65 to 0.92 and 1.18 to 1.67. T4's prompts: 6 %
// off by the form of the L4, which is of its kind, 41 % by that of the V100, which is older. L40S's
// products (ai-dynamo/aiconfigurator, 16 bits), beyond 256 rows: 14 % by the form of the RTX 4090,
// of its capability, 15 % by that of the A6000, 56 % by that of the A100.
int strangeness(const Device& a, const Device& b) {
  if (a.compute_capability == b.compute_capability) return 0;
  return is_for_data_centres(a) == is_for_data_centres(b) ? 1 : 2;
}

bool same_kernel(const KernelSet& kernels, const Device& a, const Device& b,
                 std::int32_t bitwidth) {
  const KernelRule* of_a = kernels.find(a, bitwidth);
  const KernelRule* of_b = kernels.find(b, bitwidth);
  return of_a != nullptr && of_b != nullptr && of_a->method == of_b->method;
}

// Helix's GPUs and LLM-PQ's, each left out and none of its points seen, say which donors beat the
// kernel rules (prompts on T4: 37 % off by the rules): boards of one class, for which bandwidth
// speaks; no part of a few points; none across the first tensor cores (P100 by the V100's: 56 to
// 80 %).
bool is_alike(const Profile& donor, const Device& device, const KernelSet& kernels) {
  constexpr double kMostBandwidthRatio = 2.5;  // A100 and H200 are 2.4 apart
  constexpr double kMostOfOneGeneration = 4;   // RTX 5060 and RTX PRO 6000 are 3.6 apart
  constexpr std::int64_t kLeastPoints = 20;
  constexpr double kFirstTensorCores = 7;
  const bool is_measured =
      std::any_of(donor.parts.begin(), donor.parts.end(),
                  [](const ProfilePart& part) { return part.num_points >= kLeastPoints; });
  const auto has_tensor_cores = [](const Device& gpu) {
    return gpu.compute_capability >= kFirstTensorCores;
  };
  const bool of_one = donor.device.compute_capability == device.compute_capability;
  const double most = of_one ? kMostOfOneGeneration : kMostBandwidthRatio;
  return is_measured && bandwidth_distance(donor.device, device) <= std::log(most) &&
         has_tensor_cores(donor.device) == has_tensor_cores(device) &&
         same_kernel(kernels, donor.device, device, kFullBits);
}

// Layers of a bitwidth that another kernel runs here stay with the kernel rules.
std::shared_ptr<const Profile> carried(const Device& device, bool known, const Profile& donor,
                                       const KernelSet& kernels) {
  const auto all = carried_over(device, donor);
  if (all == nullptr) return nullptr;
  auto profile = std::make_shared<Profile>(*all);
  profile->device_by_name = known;
  std::erase_if(profile->parts, [&](const ProfilePart& part) {
    return part.op == Op::layer &&
           !same_kernel(kernels, donor.device, device, part.bitwidth.value_or(kFullBits));
  });
  return profile->parts.empty() ? nullptr : profile;
}

std::shared_ptr<const Profile> carried_once(const Device& device, bool known,
                                            const std::shared_ptr<const Profile>& donor,
                                            const KernelSet& kernels) {
  struct Carried {
    std::shared_ptr<const Profile> donor, profile;
  };
  static std::mutex mutex;
  static std::map<std::string, Carried> made;
  constexpr std::size_t kMostKept = 256;
  const std::string key = json_text(to_json(device)) + json_text(to_json(kernels)) + donor->path;
  const std::lock_guard lock(mutex);
  if (made.size() >= kMostKept) made.clear();
  Carried& entry = made[key];
  if (entry.donor != donor) entry = {donor, carried(device, known, *donor, kernels)};
  return entry.profile;
}

}  // namespace

std::shared_ptr<const Profile> find_profile(const std::string& device,
                                            const std::string& kernel_set,
                                            const DataFolders& folders) {
  static FileCache<Profile> known;
  const std::string path = folders.find("profiles", device + "." + kernel_set);
  if (path.empty()) return nullptr;
  return known.get(path, [&](const std::string& content) {
    Profile profile = profile_from_json(parse_json(content, path), path, folders);
    profile.path = path;
    return profile;
  });
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
  const auto far = [&](const Profile& donor) {
    return std::pair(strangeness(donor.device, device), distance(donor.device, device));
  };
  std::stable_sort(donors.begin(), donors.end(),
                   [&](const auto& a, const auto& b) { return far(*a) < far(*b); });
  return donors;
}

bool is_known_device(const Device& device, const DataFolders& folders) {
  const std::string path = folders.find("devices", device.name);
  return !path.empty() && to_json(find_device(device.name, folders)) == to_json(device);
}

namespace {

// The GPU of a sheet at another price, in another slot, or on a board without NVLink; a share of a
// CPU, whose free memory and rates are measured anew for each cluster file, by its name alone.
bool is_gpu_of_sheet(Device device, const DataFolders& folders) {
  if (device.backend == "cpu") return true;
  if (folders.find("devices", device.name).empty()) return false;
  const Device sheet = find_device(device.name, folders);
  device.price_usd_per_h = sheet.price_usd_per_h;
  device.price_source = sheet.price_source;
  device.source = sheet.source;
  device.pcie_bytes_per_s = sheet.pcie_bytes_per_s;
  device.nvlink_bytes_per_s = sheet.nvlink_bytes_per_s;
  return to_json(sheet) == to_json(device);
}

}  // namespace

std::shared_ptr<const Profile> profile_for(const Device& device, const KernelSet& kernels,
                                           const DataFolders& folders) {
  const bool known = is_known_device(device, folders);
  if (is_gpu_of_sheet(device, folders)) {
    for (const std::string& set : {kernels.name, kernels.profile_set()}) {
      if (auto own = find_profile(device.name, set, folders)) return own;
    }
  }
  auto donors = donor_profiles(device, kernels.profile_set(), folders);
  std::erase_if(donors, [&](const auto& donor) { return !is_alike(*donor, device, kernels); });
  for (const auto& donor : donors) {
    if (auto carried = carried_once(device, known, donor, kernels)) return carried;
  }
  auto none = std::make_shared<Profile>();
  none->device = device;
  none->device_by_name = known;
  none->kernel_set = kernels.profile_set();
  return none;
}

}  // namespace tessera::cost
