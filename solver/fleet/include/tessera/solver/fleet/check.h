#pragma once

#include <string>
#include <vector>

#include "tessera/solver/fleet/fleet.h"

namespace tessera::solver {

/// A model of a placement.
struct FleetServed {
  std::string name;
  double demand_per_s = 0;  ///< all classes of requests
  /// The largest multiple of its demand that its replicas serve, and with the reserve's nodes lost.
  /// Absent: it has no demand.
  std::optional<double> scale, reserve_scale;
  std::int64_t replicas = 0, nodes = 0, gpus = 0;
  double usd_per_h = 0;  ///< of its devices; billed by node: shared by the devices
};

/// What a placement is, by arithmetic that shares nothing with the search.
struct FleetCheck {
  std::vector<std::string> violations;  ///< empty: it keeps to everything
  double objective = 0;
  double usd_per_h = 0;
  std::int64_t gpus = 0, nodes = 0;
  std::int64_t switched = 0;  ///< replicas that start or stop, of the instance's `around`
  std::vector<FleetServed> models;
};

/// Replicas that start, and those that stop, on the way from one placement to another.
struct FleetSwitches {
  FleetPlacement starts, stops;

  std::int64_t count() const { return static_cast<std::int64_t>(starts.size() + stops.size()); }
};
FleetSwitches switches(FleetPlacement from, FleetPlacement to);

/// Places every replica on its nodes, adds up money, loses every node, and serves the demand.
FleetCheck check_fleet(const FleetInstance& instance, const FleetPlacement& placement);

}  // namespace tessera::solver

namespace tessera {

template <>
struct Fields<solver::FleetServed> {
  using S = solver::FleetServed;
  static constexpr auto list = std::tuple{
      field<&S::name>({.name = "name", .doc = "The model"}),
      field<&S::demand_per_s>({.name = "demand_per_s", .doc = "All its requests", .unit = "1/s"}),
      field<&S::scale>({.name = "scale", .doc = "Multiple of the demand that is served"}),
      field<&S::reserve_scale>(
          {.name = "reserve_scale", .doc = "The same when the reserve's nodes are lost"}),
      field<&S::replicas>({.name = "replicas", .doc = "How many"}),
      field<&S::nodes>({.name = "nodes", .doc = "With a part of them"}),
      field<&S::gpus>({.name = "gpus", .doc = "Devices that they take"}),
      field<&S::usd_per_h>({.name = "usd_per_h", .doc = "Of these", .unit = "USD/h"})};
};

template <>
struct Fields<solver::FleetCheck> {
  using C = solver::FleetCheck;
  static constexpr auto list = std::tuple{
      field<&C::violations>({.name = "violations", .doc = "Empty: it keeps to everything"}),
      field<&C::objective>({.name = "objective", .doc = "Derived anew"}),
      field<&C::usd_per_h>({.name = "usd_per_h", .doc = "By the billing", .unit = "USD/h"}),
      field<&C::gpus>({.name = "gpus", .doc = "Devices that replicas take"}),
      field<&C::nodes>({.name = "nodes", .doc = "That run anything"}),
      field<&C::switched>({.name = "switched", .doc = "Replicas that start or stop"}),
      field<&C::models>({.name = "models", .doc = "Each with what serves it"})};
};

}  // namespace tessera
