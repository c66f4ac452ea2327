#include "device_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/units.h"

namespace tessera::serving {

DeviceMemory::DeviceMemory(const std::vector<SharedDevice>& devices)
    : devices_(devices), peak_(devices.size(), 0) {}

double DeviceMemory::used_bytes(std::size_t device) const {
  double bytes = 0;
  for (const auto& [engine, taken] : taken_) {
    for (const Part& part : taken.parts) bytes += part.device == device ? part.bytes : 0;
  }
  return bytes;
}

double DeviceMemory::free_bytes(std::size_t device) const {
  return std::max(0.0, devices_[device].total_bytes - used_bytes(device));
}

std::vector<std::string> DeviceMemory::models(std::size_t device) const {
  std::vector<std::string> names;
  for (const auto& [engine, taken] : taken_) {
    const bool lies =
        std::ranges::any_of(taken.parts, [&](const Part& part) { return part.device == device; });
    if (lies && std::ranges::find(names, taken.model) == names.end()) {
      names.push_back(taken.model);
    }
  }
  return names;
}

void DeviceMemory::take(std::size_t engine, const Replica& replica, const std::string& model) {
  const std::string path = fmt::format("the place of '{}'", model);
  if (replica.devices.empty() || replica.stage_bytes.size() != replica.devices.size()) {
    refuse(path, "{} stages on devices of {}, and bytes of {}; give all three alike",
           replica.cost->num_stages(), replica.devices.size(), replica.stage_bytes.size());
  }
  Taken taken{model, {}};
  for (std::size_t k = 0; k < replica.devices.size(); ++k) {
    for (const std::int32_t number : replica.devices[k]) {
      const auto device = static_cast<std::size_t>(number);
      if (number < 0 || device >= devices_.size()) {
        refuse(path, "there is no GPU {} of {} (they count from 0)", number, devices_.size());
      }
      const bool twice =
          std::ranges::any_of(taken.parts, [&](const Part& part) { return part.device == device; });
      if (twice) refuse(path, "GPU {} is there twice", number);
      const double free = free_bytes(device), bytes = replica.stage_bytes[k];
      if (!(bytes <= free * (1 + 1e-9))) {
        refuse(path, "GPU {} has {} free of {}, {} are needed", number, format_bytes(free),
               format_bytes(devices_[device].total_bytes), format_bytes(bytes));
      }
      taken.parts.push_back({device, bytes});
    }
  }
  taken_.emplace(engine, std::move(taken));
  for (std::size_t device = 0; device < devices_.size(); ++device) {
    peak_[device] = std::max(peak_[device], used_bytes(device));
  }
}

void DeviceMemory::give_back(std::size_t engine) { taken_.erase(engine); }

}  // namespace tessera::serving
