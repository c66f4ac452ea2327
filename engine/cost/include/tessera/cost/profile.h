#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/core/device.h"
#include "tessera/core/files.h"
#include "tessera/core/json_fwd.h"
#include "tessera/core/provenance.h"
#include "tessera/core/record.h"
#include "tessera/cost/held_out.h"
#include "tessera/cost/latency.h"
#include "tessera/cost/op.h"

namespace tessera::cost {

/// Experts that a runtime ships a tuned kernel for on a device. It looks them up by how many of
/// them a device has and their inner size there.
struct TunedExperts {
  std::string device;
  std::int32_t num_experts = 1;
  std::vector<std::int32_t> inner_sizes;
};
inline constexpr const char* kTunedExperts = "tuned";  ///< the name of the part that prices them

/// The model of one op on one device under one kernel set, with what is known about it.
struct ProfilePart {
  Op op = Op::gemm;
  std::string dtype;                     ///< gemm, attention, experts; empty for layers
  std::string kv_dtype;                  ///< attention; empty: as dtype
  std::optional<std::int32_t> bitwidth;  ///< layer
  std::optional<Phase> phase;            ///< attention, layer
  std::string name;  ///< layer, elementwise: which part; experts: kTunedExperts; empty: all of it
  std::vector<TunedExperts> tuned;  ///< of the experts that it prices, on any device
  std::string method;               ///< a FitMethod of the op
  std::map<std::string, std::pair<double, double>> range;  ///< [field] what was fitted
  std::int64_t num_points = 0;
  std::optional<Errors> held_out;
  std::optional<Errors> beyond;  ///< gemm: of many rows predicted from a quarter as many
  Provenance provenance = Provenance::fitted;
  std::string source;
  std::shared_ptr<const OpModel> model;
};

/// [field] the least and the largest value that was fitted.
struct FittedRange {
  static Json write(const std::map<std::string, std::pair<double, double>>& range);
  static std::map<std::string, std::pair<double, double>> read(const Json& json,
                                                               const std::string& path,
                                                               const FieldSpec& spec);
};

/// The same op, name, dtypes, bitwidth and phase: a profile has one part of a kind.
bool same_kind(const ProfilePart& a, const ProfilePart& b);

/// Says how `query` leaves the fitted range ("m 16384 is above the fitted 1 .. 8192"); absent where
/// it does not. Of a field with only one fitted value, 1.25 to both sides is within.
std::optional<std::string> outside(const ProfilePart& part, const OpQuery& query);

/// Products of so many rows that arithmetic bounds them run at their rate: up to `kMostBeyond`
/// times the largest number of rows that was fitted they stay fitted where `beyond` says how well.
inline constexpr double kMostBeyond = 4;
/// Whether arithmetic bounds a product on any device that we know: operations per byte.
bool is_compute_bound(const OpQuery& gemm);

/// What the part says of a query: outside of what was fitted it is modelled, and has no error.
Prediction predict(const ProfilePart& part, const OpQuery& query);

/// What is known about the speed of one device under one kernel set.
struct Profile {
  Device device;
  bool device_by_name = true;  ///< the file names a shipped or user's device; false: it is whole
  std::string kernel_set;
  std::string doc, source;
  std::string path;   ///< the file it was read from; empty: made in this process
  std::string donor;  ///< device whose forms were carried over to this one; empty: none
  std::vector<ProfilePart> parts;

  /// The part that answers the query, or nullptr.
  const ProfilePart* find(const OpQuery& query) const;
};

}  // namespace tessera::cost

namespace tessera {

template <>
struct Fields<cost::TunedExperts> {
  using Tuned = cost::TunedExperts;
  static constexpr auto list = std::tuple{
      field<&Tuned::device>({.name = "device", .doc = "Where the kernel is tuned"}),
      field<&Tuned::num_experts>(
          {.name = "num_experts", .doc = "That a device holds", .min = 1, .max = 1 << 20}),
      field<&Tuned::inner_sizes>({.name = "inner_sizes",
                                  .doc = "Of an expert, as a device holds it",
                                  .min = 1,
                                  .max = 1 << 30})};
};

template <>
struct Fields<cost::ProfilePart> {
  using Part = cost::ProfilePart;
  static constexpr auto list = std::tuple{
      field<&Part::op>({.name = "op", .doc = "What it prices"}),
      field<&Part::name>({.name = "name",
                          .doc = "Which part of a layer, or \"tuned\" experts; left out: all of it",
                          .in_file = InFile::when_set}),
      field<&Part::tuned>({.name = "tuned",
                           .doc = "Experts that it prices, by device",
                           .in_file = InFile::when_set}),
      field<&Part::dtype>({.name = "dtype",
                           .doc = "Of a product, of attention or of experts",
                           .in_file = InFile::when_set}),
      field<&Part::kv_dtype>({.name = "kv_dtype",
                              .doc = "Of keys and values; left out: as dtype",
                              .in_file = InFile::when_set}),
      field<&Part::bitwidth>({.name = "bitwidth",
                              .doc = "Of a layer's weights",
                              .unit = "bits",
                              .min = 1,
                              .max = 16,
                              .in_file = InFile::when_set}),
      field<&Part::phase>(
          {.name = "phase", .doc = "Of attention or a layer", .in_file = InFile::when_set}),
      field<&Part::method>({.name = "method", .doc = "How it was fitted"}),
      field<&Part::range, cost::FittedRange>({.name = "range",
                                              .doc = "What was fitted, by field",
                                              .min = 0,
                                              .max = 1e18,
                                              .in_file = InFile::when_set}),
      field<&Part::num_points>(
          {.name = "num_points", .doc = "Points that it was fitted to", .min = 0, .max = 1e9}),
      field<&Part::held_out>({.name = "held_out",
                              .doc = "Errors over points that it has not seen",
                              .in_file = InFile::when_set}),
      field<&Part::beyond>({.name = "beyond",
                            .doc = "Errors of products up to four times as tall as those that a "
                                   "fit has seen",
                            .in_file = InFile::when_set}),
      field<&Part::provenance>({.name = "provenance", .doc = "Of its times"}),
      field<&Part::source>(
          {.name = "source", .doc = "Where the points come from", .in_file = InFile::when_set})};
  /// Dtypes and the fields of the range have to be known.
  static void check(const cost::ProfilePart& part, const FieldPath& path);
};

template <>
struct Fields<cost::Profile> {
  using Profile = cost::Profile;
  static constexpr auto list = std::tuple{
      field<&Profile::kernel_set>({.name = "kernel_set", .doc = "Kernels that were measured"}),
      field<&Profile::doc>({.name = "doc", .doc = "What it is", .in_file = InFile::when_set}),
      field<&Profile::source>(
          {.name = "source", .doc = "Where it comes from", .in_file = InFile::when_set})};
};

}  // namespace tessera

namespace tessera::cost {

/// Strict, as every reader. The device is named, or given whole where it was none of the shipped.
/// @throws Error naming the field.
Profile profile_from_json(const Json& json, const std::string& path, const DataFolders& folders);
Json to_json(const Profile& profile);  ///< reads back exactly
Json to_json(const ProfilePart& part);

/// The shipped or user's profile of a device under a kernel set
/// (`profiles/<device>.<kernel set>.json`), or nullptr. A file that has not changed is parsed once.
std::shared_ptr<const Profile> find_profile(const std::string& device,
                                            const std::string& kernel_set,
                                            const DataFolders& folders);

/// Profiles of other devices under the kernel set, the most alike first: of its compute capability,
/// then of its kind of chip, then the others, each by how near their rates are.
std::vector<std::shared_ptr<const Profile>> donor_profiles(const Device& device,
                                                           const std::string& kernel_set,
                                                           const DataFolders& folders);

/// Whether the device is just what the folders hold under its name.
bool is_known_device(const Device& device, const DataFolders& folders);

/// What prices a device: its profile where it is a known device that has one; else that of the
/// most alike donor that will do (measured well, the same 16-bit kernel, at most 2.5 times its
/// bandwidth, 4 of one capability), carried over by data sheet as `modelled`; else one without
/// parts. Never nullptr.
std::shared_ptr<const Profile> profile_for(const Device& device, const KernelSet& kernels,
                                           const DataFolders& folders);

/// A device by its profile. Layers, in this order: a layer part of the bitwidth; the sum of its
/// operators (GEMMs of the dtype that the kernel rule names, attention, element-wise kernels); the
/// same for 16 bits, with what the bitwidth changes without a context by the ratio of rooflines;
/// the roofline. The last two are `modelled`, and so is what leaves the fitted range, without an
/// error, and what experts do, as one product over those that the rows touch. The error of a sum is
/// that of its parts, weighted by time. Times grow with the context.
/// In sequences and tokens they grow but for carried bitwidths, near the number of rows at which 16
/// bits turn from bandwidth to arithmetic: up to 31 % there for the A100-40G's INT8 kernels of
/// 2023, 4 % for others.
class ProfiledModel : public LatencyModel {
 public:
  /// GEMM or attention alone. Without a part: the same op of another dtype that has one times the
  /// ratio of the floors, else the floor at the kernel rule's ratios.
  virtual Prediction op(const OpQuery& query) const = 0;
};
std::unique_ptr<ProfiledModel> make_profiled(std::shared_ptr<const Profile> profile,
                                             const KernelSet& kernels);

}  // namespace tessera::cost
