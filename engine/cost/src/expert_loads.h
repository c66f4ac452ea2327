#pragma once

#include <array>

#include "tessera/cost/op.h"

namespace tessera::cost {

inline constexpr double kMatricesOfExpert = 3;  ///< gate, up and down

/// How many rows each of a layer's experts gets that a device holds. Loads are even (routing 0), or
/// follow a power law as in aiconfigurator's measurements: sampled from x ^ -routing over the range
/// 1 .. 0.8 * tokens, over 0.01 .. 2 where there are fewer rows than experts, scaled to the rows
/// there are, and no expert gets a token twice. Of several devices that hold the experts it is the
/// busiest one, which the others wait for.
///
/// Benchmarks deal their rows out by these loads: of an expert's two rows none is left to chance.
/// A query with a batch size is of sequences whose tokens pick for themselves: rows meet at some
/// experts and miss others that as many dealt rows would reach.
class ExpertLoads {
 public:
  explicit ExpertLoads(const OpQuery& query);

  /// Tokens times the experts of each, as far as they are here.
  double rows() const;
  /// Experts with a row.
  double touched() const;
  /// Tiles of so many rows, of which an expert's last one is not full.
  double tiles(double tile_rows) const;

 private:
  static constexpr int kNumGroups = 32;

  /// How often an expert with this load has a row.
  double visited(double load) const;

  double held_ = 0;  ///< experts
  double tokens_ = 0;
  bool dealt_ = true;
  std::array<double, kNumGroups> loads_{};  ///< [group] rows of each expert of a 32nd of them
};

}  // namespace tessera::cost
