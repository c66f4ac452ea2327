#pragma once

#include "tessera/cost/kernel_set.h"

namespace tessera::cost {

/// Whether a rule is of a kernel for this kind of device: those of a CPU are called "cpu-...", and
/// no other device has them.
inline bool is_of_kind(const KernelRule& rule, const Device& device) {
  return rule.method.starts_with("cpu-") == (device.backend == "cpu");
}

}  // namespace tessera::cost
