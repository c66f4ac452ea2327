#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/core/cluster.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/record.h"
#include "tessera/cost/op.h"

namespace tessera::cost {

/// What ratios of measured to predicted times say together.
struct RatioFit {
  double factor = 1;                     ///< their geometric mean
  std::optional<double> spread;          ///< standard deviation of their logarithms; not of one
  std::optional<double> left_out_error;  ///< relative, of the worst of three or more by the others

  /// How far off a prediction that is corrected by them may be, relative; absent where one run is
  /// all that there is.
  std::optional<double> error() const { return left_out_error ? left_out_error : spread; }
};

/// @param ratios positive; of none the factor is 1
RatioFit fit_ratios(const std::vector<double>& ratios);

/// What runs of servers took, over what their kernel set predicts by all else that it says: a ratio
/// for each run. The geometric mean of a phase corrects its prices on the types of devices that
/// ran.
struct Recalibration {
  std::string of;                    ///< the kernel set that it was
  std::string model;                 ///< that was served
  std::vector<std::string> devices;  ///< that served it, a name for each type
  std::vector<double> prefill_ratios, decode_ratios;

  bool ran_on(const Device& device) const;
  /// @throws Error{invalid_argument} where another model ran
  void check_is_of(const ModelShape& wanted, const std::string& path) const;
  /// @throws Error{invalid_argument} where it ran on no device of the cluster
  void check_ran_on(const Cluster& cluster, const std::string& path) const;

  const std::vector<double>& ratios(Phase phase) const {
    return phase == Phase::prefill ? prefill_ratios : decode_ratios;
  }
  double factor(Phase phase) const { return fit_ratios(ratios(phase)).factor; }
  std::optional<double> error() const;  ///< the larger one of the phases
  /// "prefill x 1.12 by 3 runs, decode x 0.95 by 3 runs of llama-3.1-8b on L4, 4 % off"
  std::string text() const;
};

}  // namespace tessera::cost

namespace tessera {

template <>
struct Fields<cost::Recalibration> {
  using Own = cost::Recalibration;
  static constexpr double kMostRatio = 1000;
  static constexpr auto list = std::tuple{
      field<&Own::of>({.name = "of", .doc = "The kernel set that was corrected"}),
      field<&Own::model>({.name = "model", .doc = "The model that was served"}),
      field<&Own::devices>({.name = "devices", .doc = "The types of devices that served it"}),
      field<&Own::prefill_ratios>({.name = "prefill_ratios",
                                   .doc = "Measured over predicted prompt times, of a run each",
                                   .min = 1 / kMostRatio,
                                   .max = kMostRatio,
                                   .in_file = InFile::when_set}),
      field<&Own::decode_ratios>({.name = "decode_ratios",
                                  .doc = "Measured over predicted times per token, of a run each",
                                  .min = 1 / kMostRatio,
                                  .max = kMostRatio,
                                  .in_file = InFile::when_set})};
  static void check(const cost::Recalibration& own, const FieldPath& path);
};

}  // namespace tessera
