#pragma once

#include "tessera/core/device.h"
#include "tessera/core/units.h"
#include "tessera/cost/kernel_set.h"

namespace tessera::test {

inline Device device(const char* name, double memory_gib, double gb_per_s, double fp16_tflops,
                     double compute_capability) {
  Device result;
  result.name = name;
  result.memory_bytes = memory_gib * kGiB;
  result.memory_bytes_per_s = gb_per_s * 1e9;
  result.flop_per_s = {{"fp16", fp16_tflops * 1e12}};
  result.compute_capability = compute_capability;
  return result;
}

inline Device t4() { return device("T4-16G", 14.76, 320, 65, 7.5); }
inline Device v100() { return device("V100-32G", 31.74, 900, 125, 7.0); }

inline cost::KernelRule rule(std::int32_t bitwidth, double group_size = 0) {
  cost::KernelRule result;
  result.bitwidth = bitwidth;
  result.method = "test-" + std::to_string(bitwidth);
  result.linear_overhead_s = 5e-6;
  result.group_size = group_size;
  return result;
}

/// 3, 4, 8 and 16 bits anywhere; the low widths pay per token, as dequantising kernels do.
inline cost::KernelSet test_kernels() {
  cost::KernelSet set;
  set.name = "test";
  set.layer_overhead_s = 20e-6;
  for (const std::int32_t bitwidth : {3, 4}) {
    cost::KernelRule low = rule(bitwidth, 128);
    low.token_s_per_parameter = 1e-16;
    set.rules.push_back(low);
  }
  set.rules.push_back(rule(8));
  set.rules.push_back(rule(16));
  return set;
}

}  // namespace tessera::test
