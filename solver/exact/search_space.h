#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/solver/instance/numbers.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver::exact {

/// Groups whose devices cost and hold the same, wherever they stand; only links tell them apart.
/// Searching kinds and not devices leaves out symmetric plans.
struct DeviceKind {
  std::size_t group = 0;             ///< one of them, for its costs
  std::vector<std::size_t> members;  ///< ascending groups
  double count = 0;                  ///< positions that the request offers to this kind
};

/// All numbers of one pair of micro-batch sizes, laid out for the inner loops. A cell is
/// class * num_bits + bit.
struct Pair {
  std::int64_t prefill_size = 1, decode_size = 1;
  ObjectiveCoefficients coefficients;
  std::vector<double> prefill_s, decode_s;                   ///< [kind][cell] seconds per layer
  std::vector<ByPlace<double>> prefill_end_s, decode_end_s;  ///< [kind] embedding and LM head
  std::vector<ByPlace<double>> room_bytes;                   ///< [kind] for layers; may be negative
  const std::vector<double>* prefill_link_s = nullptr;       ///< [group][group]
  const std::vector<double>* decode_link_s = nullptr;
  /// No plan has a smaller Tp, Td: all devices at their best rate; links of a fixed order.
  double least_prefill_max_s = 0, least_decode_max_s = 0;
  /// Slowest links there are (of a fixed order: on it).
  double slowest_prefill_link_s = 0, slowest_decode_link_s = 0;

  double link_s(bool decode, std::size_t from, std::size_t to, std::size_t groups) const {
    return (decode ? *decode_link_s : *prefill_link_s)[from * groups + to];
  }
};

/// What is searched: the instance and the request, with equal devices merged and every pair of
/// micro-batch sizes priced. Built on one thread; read-only, so shared between threads, after.
class SearchSpace {
 public:
  SearchSpace(const Instance& instance, const PlanRequest& request);

  const Instance& instance() const { return instance_; }
  const std::optional<std::vector<std::size_t>>& order() const { return order_; }
  const std::vector<DeviceKind>& kinds() const { return kinds_; }
  std::size_t kind_of(std::size_t group) const { return kind_of_[group]; }
  const std::vector<Pair>& pairs() const { return pairs_; }
  const std::vector<std::string>& notes() const { return notes_; }

  std::size_t num_layers() const { return instance_.num_layers(); }
  std::size_t num_cells() const { return cells_; }
  std::size_t num_positions() const { return positions_; }
  /// Fewest stages of a plan.
  std::size_t least_stages() const { return order_ ? positions_ : instance_.least_stages(); }
  bool allowed(std::size_t kind, std::size_t cell) const {
    return instance_.allowed_at(kinds_[kind].group, cell % instance_.num_bits());
  }
  double layer_bytes(std::size_t kind, std::size_t cell) const {
    return layer_bytes_[kind * cells_ + cell];
  }
  bool has_omega_limit() const { return omega_limit_ < kInfinity; }
  double omega_limit() const { return omega_limit_; }  ///< with the quality slack
  /// Whether omega plays any part.
  bool omega_matters() const { return instance_.theta > 0 || has_omega_limit(); }

 private:
  using Sizes = std::vector<std::pair<std::int64_t, std::int64_t>>;
  Sizes list_sizes(const PlanRequest& request);
  void merge_groups(const Sizes& sizes);
  bool same_costs(const PhaseCosts& costs, std::size_t a, std::size_t b) const;
  Pair price(std::int64_t prefill_size, std::int64_t decode_size) const;
  double least_stage_max(const std::vector<double>& layer_s) const;
  double slowest_link(const PhaseCosts& costs) const;

  const Instance& instance_;
  std::optional<std::vector<std::size_t>> order_;
  std::size_t cells_ = 0, positions_ = 0;
  double omega_limit_ = kInfinity;
  std::vector<DeviceKind> kinds_;
  std::vector<std::size_t> kind_of_;
  std::vector<double> layer_bytes_;  ///< [kind][cell]
  std::vector<Pair> pairs_;
  std::vector<std::string> notes_;
};

}  // namespace tessera::solver::exact
