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
#include "tessera/cost/held_out.h"
#include "tessera/cost/latency.h"
#include "tessera/cost/op.h"

namespace tessera::cost {

/// The model of one op on one device under one kernel set, with what is known about it.
struct ProfilePart {
  Op op = Op::gemm;
  std::string dtype;                     ///< gemm, attention; empty for layers
  std::string kv_dtype;                  ///< attention; empty: as dtype
  std::optional<std::int32_t> bitwidth;  ///< layer
  std::optional<Phase> phase;            ///< attention, layer
  std::string name;                      ///< layer, elementwise: which part; empty: all of it
  std::string method;                    ///< a FitMethod of the op
  std::map<std::string, std::pair<double, double>> range;  ///< [field] what was fitted
  std::int64_t num_points = 0;
  std::optional<Errors> held_out;
  Provenance provenance = Provenance::fitted;
  std::string source;
  std::shared_ptr<const OpModel> model;
};

/// Says how `query` leaves the fitted range ("m 16384 is above the fitted 1 .. 8192"); absent where
/// it does not.
std::optional<std::string> outside(const ProfilePart& part, const OpQuery& query);

/// What is known about the speed of one device under one kernel set.
struct Profile {
  Device device;
  bool device_by_name = true;  ///< the file names a shipped or user's device; false: it is whole
  std::string kernel_set;
  std::string doc, source;
  std::string path;  ///< the file it was read from; empty: made in this process
  std::vector<ProfilePart> parts;

  /// The part that answers the query, or nullptr.
  const ProfilePart* find(const OpQuery& query) const;
};

/// Strict, as every reader. The device is named, or given whole where it was none of the shipped.
/// @throws Error naming the field.
Profile profile_from_json(const Json& json, const std::string& path, const DataFolders& folders);
Json to_json(const Profile& profile);  ///< reads back exactly

/// The shipped or user's profile of a device under a kernel set
/// (`profiles/<device>.<kernel set>.json`), or absent.
std::optional<Profile> find_profile(const std::string& device, const std::string& kernel_set,
                                    const DataFolders& folders);

/// Layers from a profile, in this order: a layer part of the bitwidth; the sum of its operators
/// (GEMMs of the dtype that the kernel rule names, attention, element-wise and launches); a layer
/// of 16 bits times the roofline's ratio between the bitwidths (`modelled`); the roofline. What
/// has no part is priced by the roofline. The error of a sum is that of its parts, weighted by
/// time.
std::unique_ptr<LatencyModel> make_profiled(const Profile& profile, const KernelSet& kernels);

}  // namespace tessera::cost
