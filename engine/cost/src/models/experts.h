#pragma once

#include <Eigen/Core>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/cost/op.h"

namespace tessera::cost::models {

/// What the data sheet says about a dtype.
struct ExpertRates {
  double flop_per_s = 0, bytes_per_s = 0;
  double weight_bytes = 2, activation_bytes = 2;  ///< per element; outputs are 16 bit
  double num_sms = 1;
};
ExpertRates expert_rates(const Device& device, const std::string& dtype);

inline constexpr int kNumExpertTiles = 4;

/// What a query asks of a device, whatever the kernel reaches there.
struct ExpertWork {
  double held = 0;    ///< experts
  double spread = 0;  ///< 1 where other devices hold experts of the layer too
  double bytes = 0;   ///< weights of the experts touched, rows in and out of both products
  double moved = 0;   ///< bytes of rows that are gathered, activated and added up again
  double passed = 0;  ///< the same of rows that experts of other devices take
  std::array<double, kNumExpertTiles> row_tiles{};  ///< of all experts, by the tile's rows
  /// Gate and up, then down: tiles of columns, and the length of a sum.
  struct Product {
    double column_tiles = 0, depth = 0;
  };
  std::array<Product, 2> products;
};
ExpertWork expert_work(const ExpertRates& rates, const OpQuery& query);

/// A grouped kernel: its launches, and those that find a device's own rows where experts are spread
/// over several, what it does for each expert to find its rows, the rows that are
/// gathered and put back, and of the two products the weights that are read or the tiles that are
/// worked off in waves over the SMs, whichever is more, by the best of a few tile sizes. A sum and
/// a minimum of what never falls when tokens grow.
class ExpertKernel {
 public:
  static constexpr int kNumShared = 8;
  static constexpr int kNumParameters = kNumShared + 2 * kNumExpertTiles;
  using Vector = Eigen::Matrix<double, kNumParameters, 1>;

  explicit ExpertKernel(const Vector& values) : values_(values) {}

  double seconds(const ExpertRates& rates, const ExpertWork& work) const;

  const Vector& values() const { return values_; }
  /// What kernels reach as a rule.
  static Vector typical();
  /// Of any logarithms, the values within their bounds.
  static Vector bounded(const Vector& logarithms);
  /// Moves of the parameters: all at once, those of another device's kernel, which scale together,
  /// and those that only several devices show.
  static Eigen::MatrixXd all_directions();
  static Eigen::MatrixXd donor_directions();
  static Eigen::MatrixXd spread_directions();
  /// As none of several devices was measured.
  ExpertKernel on_one_device() const;

  Json coefficients() const;
  /// @throws Error naming the coefficient that is missing or outside its range.
  static ExpertKernel read(const Json& json, const std::string& path);

 private:
  double tiled_s(const ExpertRates& rates, const ExpertWork& work) const;

  Vector values_;
};

/// The experts of a layer on one device, by a kernel that was fitted in one dtype. In another its
/// weights are as many bytes, and its arithmetic as fast, as the data sheet says of that.
class Experts final : public OpModel {
 public:
  Experts(const Device& device, std::string dtype, const ExpertKernel& kernel);

  double seconds(const OpQuery& query) const override;
  Json coefficients() const override;

  const std::string& dtype() const { return dtype_; }
  const ExpertKernel& kernel() const { return kernel_; }

 private:
  std::string dtype_;
  std::map<std::string, ExpertRates> rates_;  ///< [dtype]
  ExpertKernel kernel_;
};

/// From measured points of one dtype, by damped least squares of the logarithms drawn towards
/// typical kernels. What passes a device by is fitted last, from the points of several devices.
/// @throws Error{invalid_argument} for none.
std::unique_ptr<Experts> fit_experts(const Device& device, const std::vector<Sample>& samples);

/// Another GPU's kernel at this one's data sheet, moved as far as the points (none will do) ask.
std::unique_ptr<Experts> scale_experts(const Device& device, const std::vector<Sample>& samples,
                                       const Experts& donor);

}  // namespace tessera::cost::models
