#pragma once

#include "link_ways.h"

namespace tessera::cost::models {

/// Ways of the devices of a node to sum a buffer: one-shot, where each reads the buffers of all
/// others, and two-shot, where each sums its share and then sends it to all others (as in
/// TensorRT-LLM and vLLM).
struct AllReduceWays {
  LinkWay one_shot, two_shot;

  /// The faster way. `link_bytes_per_s`: of one device, one direction.
  double seconds(double bytes, double num_devices, double link_bytes_per_s) const;
};

}  // namespace tessera::cost::models
