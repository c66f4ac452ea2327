#include "tessera/cost/auto_kernel_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "backends.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::cost {
namespace {

bool has_kernel(const KernelSet& set, const std::vector<Device>& devices,
                const std::vector<std::int32_t>& bitwidths) {
  return std::any_of(devices.begin(), devices.end(), [&](const Device& device) {
    return std::any_of(bitwidths.begin(), bitwidths.end(), [&](std::int32_t bitwidth) {
      return set.find(device, bitwidth) != nullptr;
    });
  });
}

// Whether `other` has a kernel wherever `set` has one on these devices, the same one if asked.
bool has_all_of(const KernelSet& other, const KernelSet& set, bool the_same,
                const std::vector<Device>& devices, const std::vector<std::int32_t>& bitwidths) {
  return std::all_of(devices.begin(), devices.end(), [&](const Device& device) {
    return std::all_of(bitwidths.begin(), bitwidths.end(), [&](std::int32_t bitwidth) {
      const KernelRule* own = set.find(device, bitwidth);
      const KernelRule* others = other.find(device, bitwidth);
      if (own == nullptr) return true;
      return others != nullptr && (!the_same || others->method == own->method);
    });
  });
}

// A broken file that nobody named cannot spoil a plan; who names it is told what is wrong with it.
std::vector<KernelSet> ranked_sets(const DataFolders& folders) {
  std::vector<KernelSet> sets;
  for (const std::string& name : folders.list("kernel_sets")) {
    try {
      KernelSet set = find_kernel_set(name, folders);
      if (set.auto_rank) sets.push_back(std::move(set));
    } catch (const Error&) {
      continue;
    }
  }
  std::stable_sort(sets.begin(), sets.end(), [](const KernelSet& a, const KernelSet& b) {
    return *a.auto_rank < *b.auto_rank;
  });
  return sets;
}

/// Of the runtime that is preferred for these devices, the sets that the same profiles price.
std::vector<KernelSet> preferred(const std::vector<KernelSet>& sets,
                                 const std::vector<Device>& devices,
                                 const std::vector<std::int32_t>& bitwidths,
                                 std::string_view runtime) {
  // CPUs are what our own runtime is for, so nobody else's is taken there unasked.
  const bool on_cpus = std::all_of(devices.begin(), devices.end(),
                                   [](const Device& device) { return device.backend == "cpu"; });
  const auto first_of = [&](std::string_view wanted) {
    return std::find_if(sets.begin(), sets.end(), [&](const KernelSet& set) {
      const bool suits =
          wanted.empty() ? !on_cpus || set.runtime != "llama.cpp" : set.runtime == wanted;
      return suits && has_kernel(set, devices, bitwidths);
    });
  };
  auto best = first_of(runtime);
  if (best == sets.end()) best = first_of({});
  std::vector<KernelSet> alike;
  if (best == sets.end()) return alike;
  std::copy_if(best, sets.end(), std::back_inserter(alike), [&](const KernelSet& set) {
    return set.runtime == best->runtime && set.profile_set() == best->profile_set();
  });
  return alike;
}

/// The best of them that runs on every device, as stages of one engine read one checkpoint; where
/// none does, the best.
KernelSet common_of(std::vector<KernelSet> sets, const std::vector<Device>& devices,
                    const std::vector<std::int32_t>& bitwidths) {
  const auto common = std::find_if(sets.begin(), sets.end(), [&](const KernelSet& set) {
    return std::all_of(devices.begin(), devices.end(),
                       [&](const Device& device) { return has_kernel(set, {device}, bitwidths); });
  });
  return std::move(common == sets.end() ? sets.front() : *common);
}

[[noreturn]] void refuse_devices(const std::vector<Device>& devices,
                                 const std::vector<std::int32_t>& bitwidths) {
  if (bitwidths.empty()) refuse("bitwidths", "the list is empty; give some, as in 4, 8, 16");
  std::vector<std::string> names;
  for (const Device& device : devices) {
    if (std::find(names.begin(), names.end(), device.name) == names.end()) {
      names.push_back(device.name);
    }
  }
  refuse(ErrorCode::unsupported, "kernel_set",
         "no kernel set has a kernel for these bitwidths on {}; give other bitwidths, or name a "
         "kernel set",
         join(names, ", "));
}

}  // namespace

std::vector<KernelSet> recommended_kernel_sets(const std::vector<Device>& devices,
                                               const std::vector<std::int32_t>& bitwidths,
                                               std::string_view runtime,
                                               const DataFolders& folders) {
  const std::vector<KernelSet> sets = ranked_sets(folders);
  std::vector<KernelSet> list = preferred(sets, devices, bitwidths, runtime);
  if (list.empty()) refuse_devices(devices, bitwidths);
  for (const Device& device : devices) {
    for (KernelSet& own : preferred(sets, {device}, bitwidths, runtime)) {
      if (!runtime.empty() && own.runtime != list.front().runtime) continue;
      const bool is_there = std::any_of(
          list.begin(), list.end(), [&](const KernelSet& other) { return other.name == own.name; });
      if (!is_there) list.push_back(std::move(own));
    }
  }
  return needed_kernel_sets(list, devices, bitwidths);
}

std::vector<KernelSet> needed_kernel_sets(const std::vector<KernelSet>& sets,
                                          const std::vector<Device>& devices,
                                          const std::vector<std::int32_t>& bitwidths) {
  std::vector<KernelSet> needed;
  for (const KernelSet& set : sets) {
    const bool is_covered = std::any_of(needed.begin(), needed.end(), [&](const KernelSet& better) {
      return has_all_of(better, set, false, devices, bitwidths);
    });
    if (is_covered) continue;
    // A better set may lack what this one has, and have nothing of its own: FP8 on older devices.
    std::erase_if(needed, [&](const KernelSet& better) {
      return has_all_of(set, better, true, devices, bitwidths);
    });
    needed.push_back(set);
  }
  return needed;
}

PricingContext pricing_context(ModelShape model, Cluster cluster,
                               const std::vector<std::int32_t>& bitwidths,
                               const std::string& kernel_set, const DataFolders& folders) {
  std::vector<std::int32_t> asked = bitwidths;
  std::sort(asked.begin(), asked.end());
  asked.erase(std::unique(asked.begin(), asked.end()), asked.end());
  std::vector<Device> devices;
  for (const ClusterDevice& slot : cluster.devices) devices.push_back(slot.device);
  PricingContext context;
  context.kernel_set =
      kernel_set == kAutoKernelSet
          ? common_of(recommended_kernel_sets(devices, asked, {}, folders), devices, asked)
          : find_kernel_set(kernel_set, folders);
  if (const auto& runs = context.kernel_set.recalibration) runs->check_is_of(model, "kernel_set");
  std::set<std::string> known;
  for (const Device& device : devices) {
    if (!known.insert(device.name).second) continue;
    auto profile = profile_for(device, context.kernel_set, folders);
    if (!profile->parts.empty()) context.profiles.push_back(std::move(profile));
  }
  context.model = std::move(model);
  context.cluster = std::move(cluster);
  return context;
}

std::string borrowed_forms(const PricingContext& context) {
  std::vector<std::string> texts;
  std::set<std::string> known;
  for (const ClusterDevice& slot : context.cluster.devices) {
    const Device& device = slot.device;
    if (!known.insert(device.name).second) continue;
    const auto own = std::find_if(context.profiles.begin(), context.profiles.end(),
                                  [&](const auto& p) { return p->device.name == device.name; });
    if (own == context.profiles.end()) {
      const bool unsaid = device.compute_capability <= kDefaultComputeCapability && !device.backend;
      texts.push_back(fmt::format("{} by generic forms{}", device.name,
                                  unsaid ? ", as its sheet names no compute capability" : ""));
    } else if (!(*own)->donor.empty()) {
      texts.push_back(fmt::format("{} by the forms of {}", device.name, (*own)->donor));
    }
  }
  return join(texts, ", ");
}

std::string why_no_kernel(const KernelSet& set, const Device& device, std::int32_t bitwidth) {
  if (device.backend == "hpu") return fmt::format("no runtime here runs on {}", device.name);
  const KernelRule* nearest = nullptr;
  std::string why = "it has no such kernel";
  for (const KernelRule& rule : set.rules) {
    if (rule.bitwidth != bitwidth || !rule.scheme.empty() || !is_of_kind(rule, device)) continue;
    const auto& names = rule.devices;
    if (!names.empty() && std::find(names.begin(), names.end(), device.name) == names.end()) {
      if (nearest == nullptr) why = fmt::format("{} is for {}", rule.method, fmt::join(names, " "));
      continue;
    }
    if (nearest != nullptr && rule.min_compute_capability >= nearest->min_compute_capability) {
      continue;
    }
    nearest = &rule;
    const double from = rule.min_compute_capability, to = rule.max_compute_capability;
    const bool reaches = device.compute_capability >= from && device.compute_capability <= to;
    why = reaches ? fmt::format("{} computes in {}, of which {} has no rate", rule.method,
                                rule.compute_dtype, device.name)
                  : fmt::format("{} needs compute capability {:g}{}, {} has {}", rule.method, from,
                                to < 1e9 ? fmt::format(" to {:g}", to) : "", device.name,
                                device.compute_capability > kDefaultComputeCapability
                                    ? fmt::format("{:g}", device.compute_capability)
                                    : "none");
  }
  return why;
}

}  // namespace tessera::cost
