#pragma once

#include <cstdint>
#include <vector>

#include "tessera/solver/instance/instance.h"

namespace tessera::solver {

/// Lower bounds on `latency_s` for mixes of devices, in microseconds each: what a search over many
/// mixes asks before it solves one.
///
/// Layers are a fluid. With y_j = 1 / (time of device j for the whole model), any split obeys
/// Tp sum_j y_j >= sum_i min_j y_j l_ji, and the sums of stage times are at least those of the
/// fastest device for each layer; the quality floor on the bitwidths of the minima enters by
/// Lagrangian relaxation. The embeddings and the LM head run where they are fastest. Links and the
/// memory of single devices are left out; memory is held as a whole.
class MixBound {
 public:
  /// @param types an instance whose groups are the device types to be mixed, of any count.
  explicit MixBound(const Instance& types);

  /// No plan on `counts[g]` devices of each group has a lower latency; infinite where the layers
  /// cannot fit together.
  double latency_s(const std::vector<std::int64_t>& counts) const;

 private:
  /// Layers that nothing tells apart.
  struct LayerType {
    std::int32_t cls = 0;
    double count = 0;
    std::vector<double> omega;  ///< [bit]
  };
  /// One number of micro-batches; each time is the least over the sizes that give it.
  struct Phase {
    double units = 0;                     ///< micro-batches (prefill: times chunks)
    std::vector<double> layer_s;          ///< [group][layer type][bit], infinite without a kernel
    std::vector<double> first_s, last_s;  ///< [group]
    std::vector<double> model_s;          ///< [group] whole model within the floor
  };
  struct Stage {
    double max_s = 0, sum_s = 0;
  };
  void add_layer_types(const Instance& types);
  void add_size(const Instance& types, const PhaseCosts& costs, double units,
                std::vector<Phase>& phases) const;
  double within_floor(const std::vector<double>& cost) const;
  double least_layer_bytes(const Instance& types) const;
  Stage fluid(const Phase& phase, const std::vector<std::int64_t>& counts) const;

  std::size_t bits_ = 0;
  std::vector<LayerType> layer_types_;
  bool floor_ = false;
  double max_omega_ = 0;
  std::vector<double> usable_bytes_;
  double embedding_bytes_[2] = {0, 0};  ///< of several stages, of one
  double layer_bytes_ = 0;              ///< least that all layers take within the floor
  double output_tokens_ = 1;
  std::vector<Phase> prefill_, decode_;
};

}  // namespace tessera::solver
