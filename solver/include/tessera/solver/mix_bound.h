#pragma once

#include <cstdint>
#include <vector>

#include "tessera/solver/instance.h"

namespace tessera::solver {

/// Lower bounds on `latency_s` for mixes of devices, in microseconds each: what a search over many
/// mixes asks before it solves one.
///
/// Layers are a fluid: with y_j = 1 / (time of device j for the whole model), any split obeys
/// Tp sum_j y_j >= sum_i min_j y_j l_ji, and the sums of stage times are at least those of the
/// fastest device and bitwidth for each layer. Links, embeddings and the memory of single devices
/// are left out; memory and quality floor are held as a whole.
class MixBound {
 public:
  /// @param types an instance whose groups are the device types to be mixed, of any count.
  explicit MixBound(const Instance& types);

  /// No plan on `counts[g]` devices of each group has a lower latency; infinite where the layers
  /// cannot fit together.
  double latency_s(const std::vector<std::int64_t>& counts) const;

 private:
  struct Size {
    double units = 0;             ///< micro-batches (prefill: times chunks)
    std::vector<double> layer_s;  ///< [group][class] at the fastest bitwidth
  };
  struct Stage {
    double max_s = 0, sum_s = 0;
  };
  Stage fluid(const Size& size, const std::vector<std::int64_t>& counts) const;
  double least_layer_bytes(const Instance& types) const;

  std::vector<double> layers_of_class_;
  std::vector<double> usable_bytes_;
  double embedding_bytes_[2];  ///< of several stages, of one
  double layer_bytes_ = 0;     ///< least that all layers take under the quality floor
  double output_tokens_ = 1;
  std::vector<Size> prefill_, decode_;
};

}  // namespace tessera::solver
