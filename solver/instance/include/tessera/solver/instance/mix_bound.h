#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tessera/solver/instance/instance.h"

namespace tessera::solver {

/// Lower bounds on the steady objective for mixes of devices and shares of the requests, in
/// microseconds each: what a search over many of them asks before it solves one.
///
/// Layers are a fluid. With y_j = 1 / (time of device j for the whole model), any split obeys
/// Tp sum_j y_j >= sum_i min_j y_j l_ji, and the sums of stage times are at least those of the
/// fastest device for each layer. Each layer takes the bitwidth that costs it least of all this;
/// the memory of all devices together and the quality floor enter by Lagrangian relaxation, one at
/// a time. The embeddings and the LM head run where they are fastest. Links, activations and the
/// memory of single devices are left out.
class MixBound {
 public:
  /// @param types an instance whose groups are the device types to be mixed, of any count. It is to
  /// outlive the bound.
  /// @param one the same with one request, from which the bytes of a share are known; null: every
  /// share holds what all requests hold. Read here only.
  explicit MixBound(const Instance& types, const Instance* one = nullptr);

  /// Whether it takes microseconds: where costs may fall with the micro-batch size, it looks at
  /// each.
  static bool is_quick(const Instance& types) {
    return types.monotone_costs || types.batch_size <= 1024;
  }

  /// No plan on `counts[g]` devices of each group has a lower latency for all requests; infinite
  /// where the layers cannot fit together.
  double latency_s(const std::vector<std::int64_t>& counts) const;
  /// No plan for `share` requests, of 1 to all of them, has a lower objective, priced omega and
  /// all.
  double objective(const std::vector<std::int64_t>& counts, std::int64_t share) const;

 private:
  /// Layers that nothing tells apart.
  struct LayerType {
    std::int32_t cls = 0;
    double count = 0;
    std::vector<double> omega;  ///< [bit]
  };
  /// Least times of a phase at a size or any above it.
  struct Times {
    std::vector<double> layer_s;          ///< [group][layer type][bit], infinite without a kernel
    std::vector<double> first_s, last_s;  ///< [group]
    std::vector<double> model_s;          ///< [group] whole model
  };
  using BySize = std::map<std::int64_t, Times>;
  /// Least seconds of each layer, [layer type][bit], as a part of the slowest stage's time and of
  /// the sum of all stages' times; the pipeline's ends are spread over the layers.
  struct Fluid {
    std::vector<double> max_s, sum_s;
  };

  void add_layer_types();
  Times times_of(const PhaseCosts& costs) const;
  void add_all_sizes();
  const Times& prefill_at(std::int64_t size) const;
  const Times& decode_at(std::int64_t size) const;
  double sum(const std::vector<double>& per_layer) const;
  double least_within(const std::vector<double>& cost, const std::vector<double>& usage,
                      double limit) const;
  std::vector<double> layer_bytes(const std::vector<std::int64_t>& counts,
                                  std::int64_t share) const;
  double embedding_bytes(const std::vector<std::int64_t>& counts) const;
  Fluid fluid(const Times& times, const std::vector<std::int64_t>& counts) const;
  std::vector<double> least_seconds(const std::vector<std::int64_t>& counts,
                                    std::int64_t share) const;
  double bound(const std::vector<std::int64_t>& counts, std::int64_t share, double theta) const;

  const Instance& types_;
  std::size_t bits_ = 0;
  std::vector<LayerType> layer_types_;
  std::vector<double> omega_;                   ///< [layer type][bit]
  double max_omega_ = 0;                        ///< infinite without a floor
  std::vector<double> bytes_all_, bytes_each_;  ///< [sharding][cls][bit] all requests, and of one
  mutable BySize prefill_, decode_;
};

}  // namespace tessera::solver
