#include "tessera/cost/kernel_set.h"

#include <algorithm>
#include <set>

namespace tessera::cost {
namespace {

bool applies(const KernelRule& rule, const Device& device) {
  if (device.compute_capability < rule.min_compute_capability ||
      device.compute_capability > rule.max_compute_capability) {
    return false;
  }
  return rule.devices.empty() ||
         std::find(rule.devices.begin(), rule.devices.end(), device.name) != rule.devices.end();
}

}  // namespace

const KernelRule* KernelSet::find(const Device& device, std::int32_t bitwidth) const {
  const KernelRule* general = nullptr;
  for (const KernelRule& rule : rules) {
    if (rule.bitwidth != bitwidth || !applies(rule, device)) continue;
    if (!rule.devices.empty()) return &rule;
    if (general == nullptr) general = &rule;
  }
  return general;
}

std::vector<std::int32_t> KernelSet::bitwidths_on(const Device& device) const {
  std::set<std::int32_t> found;
  for (const KernelRule& rule : rules) {
    if (applies(rule, device)) found.insert(rule.bitwidth);
  }
  return {found.begin(), found.end()};
}

}  // namespace tessera::cost
