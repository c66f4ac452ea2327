#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "tessera/solver/instance/instance.h"

namespace tessera::solver {

/// The planning problem at one pair of micro-batch sizes, where all costs are numbers.
struct Subproblem {
  Subproblem(const Instance& instance_in, std::optional<std::vector<std::size_t>> order_in,
             std::int64_t prefill_size_in, std::int64_t decode_size_in)
      : instance(instance_in),
        order(std::move(order_in)),
        prefill_size(prefill_size_in),
        decode_size(decode_size_in),
        prefill(instance_in.prefill(prefill_size_in)),
        decode(instance_in.decode(decode_size_in)),
        coefficients(objective_coefficients(instance_in, instance_in.objective, prefill_size_in,
                                            decode_size_in)) {}

  const Instance& instance;
  std::optional<std::vector<std::size_t>> order;  ///< absent: any
  std::int64_t prefill_size, decode_size;
  const PhaseCosts& prefill;
  const PhaseCosts& decode;
  ObjectiveCoefficients coefficients;

  std::size_t num_positions() const { return order ? order->size() : instance.num_devices(); }
  double fixed_bytes(std::size_t group, StagePlace place) const {
    return instance.fixed_bytes(group, place, prefill, decode);
  }
  /// A thousandth of a typical stage time: in this unit the solver's absolute tolerances are small
  /// relative ones.
  double time_unit_s(const PhaseCosts& costs) const {
    double largest = 0;
    for (const double s : costs.layer_s) largest = std::max(largest, s);
    const double layers = static_cast<double>(instance.num_layers());
    const double typical = largest * layers / static_cast<double>(num_positions());
    return typical > 0 ? typical / 1000 : 1;
  }
  /// Of the links between neighbours of a fixed order; 0 where it is free.
  double slowest_link_s(const PhaseCosts& costs) const {
    double slowest = 0;
    for (std::size_t j = 1; order && j < order->size(); ++j) {
      slowest = std::max(slowest, instance.link_s(costs, (*order)[j - 1], (*order)[j]));
    }
    return slowest;
  }
  /// Largest sum of omega that the quality floor accepts.
  std::optional<double> omega_limit() const {
    if (!instance.max_omega) return std::nullopt;
    const double limit = *instance.max_omega;
    return limit + (limit < 0 ? -limit : limit) * kQualitySlack;
  }
};

/// Bounds on a value in every solution worth finding.
struct Interval {
  double low = 0;
  double high = 0;
};

}  // namespace tessera::solver
