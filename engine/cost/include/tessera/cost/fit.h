#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/core/units.h"
#include "tessera/cost/profile.h"

namespace tessera::cost {

/// How parts are fitted and what error is quoted for them.
struct FitOptions {
  std::string method = "auto";  ///< or the name of one: auto takes the least mean held-out error
  std::vector<std::string> hold_out;  ///< fields that make a fold; empty: every distinct query
  std::int32_t folds = 5;             ///< 0: leave one out
  std::uint64_t seed = 0;
  std::string source;
};

}  // namespace tessera::cost

namespace tessera {

template <>
struct Fields<cost::FitOptions> {
  using Options = cost::FitOptions;
  static constexpr auto list = std::tuple{
      field<&Options::method>({.name = "method",
                               .doc = "How to fit: operator, regression, table, ...; auto takes "
                                      "what predicts held-out points best",
                               .as_option = AsOption::defaulted}),
      field<&Options::hold_out>(
          {.name = "hold_out",
           .doc = "Fields that are held out together, as {\"n\", \"k\"}; default: every point",
           .option_type = "string[]"}),
      field<&Options::folds>({.name = "folds",
                              .doc = "Folds of the held-out error; 0 leaves one out at a time; "
                                     "default: 0 for few samples, else 5",
                              .min = 0,
                              .max = 1e6}),
      field<&Options::seed>({.name = "seed",
                             .doc = "Deals the points to folds",
                             .min = 0,
                             .max = kMaxExactInteger,
                             .as_option = AsOption::defaulted}),
      field<&Options::source>(
          {.name = "source", .doc = "Where the points come from; default: as the first says"})};
};

}  // namespace tessera

namespace tessera::cost {

/// Points of one part: the same op, name, dtypes, bitwidth and phase.
std::vector<std::vector<Sample>> split_by_part(const std::vector<Sample>& samples);

/// @throws Error{invalid_argument} naming `path` where the times of products or of attention cannot
/// be this device's (the middle one below a tenth or above 500 times its data sheet's floor:
/// another unit), or where more than a tenth of the products have matrices narrower than 16
/// (columns swapped).
void check_plausible(const Device& device, const std::vector<Sample>& samples,
                     const std::string& path);
/// @throws Error{invalid_argument} for several samples that are all of one point.
void check_distinct(const std::vector<Sample>& samples, const std::string& path);

/// Less mean held-out error; an error that is known goes before none.
bool predicts_better(const ProfilePart& a, const ProfilePart& b);

/// One part from points of one part. `donor` is a part of another device or nullptr.
/// A method that cannot use the points is passed over. Points that leave nothing to hold out have
/// no held-out error, and their part is `modelled`. With method "auto" the error is the one that
/// the method was chosen by.
/// `held_out_s`, where it is given: [sample] prediction without its fold, or empty.
/// @throws Error{invalid_argument} when no method can, with the reason of the last.
ProfilePart fit_part(const Device& device, const std::vector<Sample>& samples,
                     const FitOptions& options, const ProfilePart* donor = nullptr,
                     std::vector<double>* held_out_s = nullptr);

/// One part for each kind of sample. Every sample must be of this device and kernel set, or not
/// say. With method "auto" the held-out errors are of the choice as well: each fold is predicted by
/// the method that did best within the others.
Profile fit_profile(const Device& device, const std::string& kernel_set,
                    const std::vector<Sample>& samples, const FitOptions& options);

/// A device from few points.
struct Calibration {
  std::shared_ptr<const Profile> profile;
  Errors before;      ///< of what there was: the device's profile, else the roofline
  Errors after;       ///< each point predicted without it; num_points 0 where none could be
  std::string donor;  ///< device whose form was taken; empty: fitted from the points alone
};

/// Fits each kind of sample alone and scaled from each donor (profiles of devices under the kernel
/// set), and keeps what predicts held-out points best. A donor of this device itself may also be
/// kept as it is. What has no samples is taken from the device's own donor, else carried over from
/// the chosen donor by data sheet, as `modelled`. `before`: a profile that the device has, or
/// nullptr.
/// @throws Error{invalid_argument} for no samples.
Calibration calibrate(const Device& device, const KernelSet& kernels,
                      const std::vector<Sample>& samples,
                      const std::vector<std::shared_ptr<const Profile>>& donors,
                      std::shared_ptr<const Profile> before, const FitOptions& options);

/// A device without measurements: every part of the donor scaled by the data sheets, `modelled`.
/// Parts that cannot be scaled so are left out; nullptr when none can.
std::shared_ptr<const Profile> carried_over(const Device& device, const Profile& donor);

}  // namespace tessera::cost
