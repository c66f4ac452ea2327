#pragma once

#include <cmath>

#include "tessera/core/device.h"

namespace tessera::cost::models {

/// How many multiprocessors share a device's work, at least 1. Where the device does not say: data
/// sheets give the rate of all of them; within a generation each has the same units, so the rate of
/// one follows from a GPU of that generation whose count is known (P100 56, V100 80, T4 40, A100
/// 108, A10 72, L4 58, H200 132).
inline double multiprocessors_of(const Device& device) {
  if (device.num_multiprocessors) return *device.num_multiprocessors;
  struct Generation {
    double compute_capability, flop_per_s;  // FP16, of one multiprocessor
  };
  constexpr Generation kGenerations[] = {{9.0, 989e12 / 132}, {8.9, 121e12 / 58},
                                         {8.6, 125e12 / 72},  {8.0, 312e12 / 108},
                                         {7.5, 65e12 / 40},   {7.0, 125e12 / 80}};
  double flop_per_s = 18.7e12 / 56;
  for (const Generation& generation : kGenerations) {
    if (device.compute_capability < generation.compute_capability) continue;
    flop_per_s = generation.flop_per_s;
    break;
  }
  return std::fmax(1, std::round(device.flop_per_s.at("fp16") / flop_per_s));
}

}  // namespace tessera::cost::models
