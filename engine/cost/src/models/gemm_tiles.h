#pragma once

#include <Eigen/Core>
#include <string>
#include <vector>

#include "tessera/core/json_fwd.h"
#include "tessera/cost/op.h"

namespace tessera::cost::models {

/// [m, k] activations times [k, n] weights.
struct GemmShape {
  double m = 1, n = 1, k = 1;
};

/// What the data sheet says about products of one dtype.
struct GemmRates {
  double flop_per_s = 0, bytes_per_s = 0;
  double weight_bytes = 2, activation_bytes = 2;  ///< per element; outputs are 16 bit
  double num_sms = 1;                             ///< processors that work on tiles side by side
  double compute_capability = 0;
  double core_flop_per_s = 1;  ///< FP32: within an architecture what caches and buses follow
};
/// The number of SMs where the device does not say it: the FP16 rate over that of one SM of the
/// architecture (A100 108, H100 and H200 132, V100 80, T4 40).
GemmRates gemm_rates(const Device& device, const std::string& dtype);
/// Boards that run the same kernels, wave by wave: one architecture, as many processors.
bool same_chip(const GemmRates& a, const GemmRates& b);

/// Rows and columns of the result that one block of threads works out.
struct GemmTile {
  double rows = 0, columns = 0;
};

/// Seconds of a product as the fastest of a set of tiled kernels, each with its waves over the SMs
/// and with k cut into parts for small grids, on top of the time to move the bytes; or of a kernel
/// without tiles for a few rows. Activations of 8 bits are quantised first, a row at a time. A
/// minimum of terms that never fall when m, n or k grow, so it never falls either.
class GemmTiles {
 public:
  static constexpr int kNumTiles = 9;
  static constexpr int kNumShared = 10;
  static constexpr int kNumParameters = kNumShared + 2 * kNumTiles;
  using Vector = Eigen::Matrix<double, kNumParameters, 1>;

  /// `values`: as in `to_json`, the shared ones first.
  GemmTiles(const GemmRates& rates, const Vector& values) : rates_(rates), values_(values) {}

  double seconds(const GemmShape& shape) const;

  /// The same kernels by another data sheet. What never leaves the chip (tiles that come from the
  /// caches, partial sums, quantising) is of the chip, not of its memory: within an architecture it
  /// goes with the cores' rate, and with the memory's only where nothing better is known.
  GemmTiles carried_to(const GemmRates& rates) const;

  const GemmRates& rates() const { return rates_; }
  const Vector& values() const { return values_; }
  static const std::vector<GemmTile>& tiles();
  /// What kernels reach as a rule, before anything is measured.
  static Vector typical();
  /// Logarithms, of the share of whole waves the logit: any real numbers make a model.
  static Vector to_free(const Vector& values);
  static Vector from_free(const Vector& free);

 private:
  double tiled_s(const GemmShape& shape) const;
  double memory_s(const GemmShape& shape) const;
  double quantise_s(const GemmShape& shape) const;

  GemmRates rates_;
  Vector values_;
};

/// Parameters that scale together when one GPU's form is taken to another: times, shares of the
/// bandwidth, shares of an SM's bandwidth, shares of the rate.
const std::vector<std::vector<int>>& gemm_parameter_groups();

/// Named, with units; reads back exactly.
Json to_json(const GemmTiles& tiles);
/// @throws Error naming the coefficient that is missing or outside its range.
GemmTiles gemm_tiles_from_json(const GemmRates& rates, const Json& json, const std::string& path);

}  // namespace tessera::cost::models
