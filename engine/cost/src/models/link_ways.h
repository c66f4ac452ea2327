#pragma once

#include <utility>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/cost/op.h"

namespace tessera::cost::models {

/// What a transfer among devices takes by one kernel or protocol.
struct LinkWay {
  double base_s = 0;      ///< whatever the size
  double peer_s = 0;      ///< for each device after the first
  double link_ratio = 1;  ///< reached share of the link's rate

  /// `wire_bytes`: that a device gets over its link; its rate is of one direction.
  double seconds(double wire_bytes, double num_devices, double link_bytes_per_s) const;
};

/// Two ways, of which the faster one runs.
using LinkWays = std::pair<LinkWay, LinkWay>;
using WireBytes = double (*)(const OpQuery&);

/// Each sample goes to the way that is faster for it. One that no sample takes is never taken.
/// @throws Error{invalid_argument}, said by `method`, for less than six samples.
LinkWays fit_link_ways(const std::vector<Sample>& samples,
                       const std::pair<WireBytes, WireBytes>& wire_bytes, double link_bytes_per_s,
                       const char* method);

}  // namespace tessera::cost::models

namespace tessera {

template <>
struct Fields<cost::models::LinkWay> {
  using Way = cost::models::LinkWay;
  static constexpr double kNeverSeconds = 1e9;  ///< the start of a way that no sample takes
  static constexpr auto list =
      std::tuple{field<&Way::base_s>({.name = "base_s",
                                      .doc = "Whatever the size",
                                      .unit = "s",
                                      .min = 0,
                                      .max = kNeverSeconds}),
                 field<&Way::peer_s>({.name = "peer_s",
                                      .doc = "For each device after the first",
                                      .unit = "s",
                                      .min = 0,
                                      .max = 3600}),
                 field<&Way::link_ratio>({.name = "link_ratio",
                                          .doc = "Reached share of the link's rate",
                                          .min = 1e-9,
                                          .max = 1})};
};

}  // namespace tessera
