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

  /// `link_bytes_per_s`: of one device, one direction.
  double one_shot_s(double bytes, double num_devices, double link_bytes_per_s) const;
  double two_shot_s(double bytes, double num_devices, double link_bytes_per_s) const;
  /// The faster way.
  double seconds(double bytes, double num_devices, double link_bytes_per_s) const;
};

}  // namespace tessera::cost::models
