#pragma once

#include <cstdint>

namespace tessera::cost::models {

/// Ways of the devices of a node to sum a buffer: one-shot, where each reads the buffers of all
/// others, and two-shot, where each sums its share and then sends it to all others (as in
/// TensorRT-LLM and vLLM).
struct AllReduceWays {
  struct Way {
    double base_s = 0;      ///< whatever the size
    double peer_s = 0;      ///< for each device after the first
    double link_ratio = 1;  ///< reached share of the link's rate
  };
  Way one_shot, two_shot;

  /// The faster way. `link_bytes_per_s`: of one device, one direction.
  double seconds(double bytes, double num_devices, double link_bytes_per_s) const;
};

/// Bytes that a device gets over its link.
double one_shot_bytes(double bytes, double num_devices);
double two_shot_bytes(double bytes, double num_devices);

}  // namespace tessera::cost::models
