#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/cost/kernel_set.h"
#include "tessera/cost/stage_price.h"

namespace tessera::cost {

/// The name that stands for `recommended_kernel_sets`.
inline constexpr std::string_view kAutoKernelSet = "auto";

/// The kernel sets among which a plan for these devices is to be looked for, the best first: of the
/// public runtime that is preferred (KernelSet::auto_rank) and has a kernel for some of the
/// bitwidths on some of the devices, those that are priced by the same profiles; then those that
/// each type of device would have alone, so that a device more takes no plan away; without those
/// that `needed_kernel_sets` leaves out. Never empty.
/// @param runtime where not empty, only sets of this runtime are looked at, where one has a kernel
/// @throws Error{unsupported} where no set has a kernel on any of the devices
std::vector<KernelSet> recommended_kernel_sets(const std::vector<Device>& devices,
                                               const std::vector<std::int32_t>& bitwidths,
                                               std::string_view runtime,
                                               const DataFolders& folders);

/// The sets without those that have nothing of their own on these devices: a set before has a
/// kernel wherever they have one, or one behind has just the same. In the same order; never empty
/// if `sets` is not.
std::vector<KernelSet> needed_kernel_sets(const std::vector<KernelSet>& sets,
                                          const std::vector<Device>& devices,
                                          const std::vector<std::int32_t>& bitwidths);

/// What prices a model on a cluster by a kernel set of this name, or with "auto" by the best that
/// suits devices and bitwidths, with the profiles that there are.
/// @throws Error{not_found} for a kernel set that there is not, and as recommended_kernel_sets
PricingContext pricing_context(ModelShape model, Cluster cluster,
                               const std::vector<std::int32_t>& bitwidths,
                               const std::string& kernel_set, const DataFolders& folders);

/// Whose forms price the devices that nobody measured under the kernel set, as in "RTX-5080 by the
/// forms of RTX-PRO-6000"; empty where all were measured.
std::string borrowed_forms(const PricingContext& context);

/// Why a set has no kernel for a bitwidth on a device, in words; for where `find` has none.
std::string why_no_kernel(const KernelSet& set, const Device& device, std::int32_t bitwidth);

}  // namespace tessera::cost
