#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/files.h"
#include "tessera/core/record.h"
#include "tessera/solver/fleet/fleet.h"
#include "tessera/solver/fleet_pricing/columns.h"

/// Fleets of named models: columns priced by the cost models, simulated where a placement uses
/// them.
namespace tessera::solver {

/// Alike replicas that run on the same nodes, by names that another fleet has too.
struct RunningReplicas {
  std::string model, label;
  std::vector<std::string> node_names;
  std::int64_t count = 1;
};

struct FleetRequest {
  std::vector<NodeKind> nodes;
  std::vector<NamedModel> models;
  FleetObjective objective = FleetObjective::cost;
  Billing billing = Billing::device;
  std::int64_t reserve_nodes = 0;
  std::optional<double> max_usd_per_h;
  std::vector<FleetConstraint> constraints;
  double gap = 0.01;
  double time_limit_s = 60;
  std::int64_t threads = 0;
  std::int64_t seed = 1;
  bool simulate_all = false;
  /// Of models by name, in place of their traffic's rate (1/s); the shape of it stays.
  std::map<std::string, double> demand_per_s = {};
  /// What runs before it, and where it is one of a row, what runs after it. What is not among its
  /// columns or nodes stops whatever is planned, and counts for nothing.
  std::vector<std::vector<RunningReplicas>> around = {};
  double switch_usd = 0;                   ///< of each replica that starts or stops
  double hours = 1;                        ///< that it stands
  std::function<bool()> should_stop = {};  ///< asked often; true: interrupted
  std::function<void(const FleetIncumbent&)> on_incumbent = {};
  /// A rule of rounding, as of FleetOptions, that sees the columns too.
  std::function<std::vector<double>(const std::vector<double>&, const FleetInstance&)> round = {};
  std::vector<GivenColumn> given_columns = {};  ///< beside those that are made here
};

/// How columns were priced.
struct FleetPricing {
  std::int64_t columns = 0;    ///< kinds of replicas
  std::int64_t shapes = 0;     ///< engines that they are of, alike nodes as one
  std::int64_t simulated = 0;  ///< of these
  std::int64_t rounds = 0;     ///< of master and simulation
  double priced_s = 0, simulated_s = 0, master_s = 0;
};

struct PricedFleet {
  FleetInstance instance;  ///< with what is known of rates in the end
  FleetAnswer answer;      ///< its placement uses simulated rates alone
  FleetPricing pricing;
  std::shared_ptr<FleetColumns> columns;  ///< [columns of the instance]
  std::vector<NodeKind> nodes;            ///< [classes of the instance]
  std::int64_t num_leaving = 0;  ///< replicas of `around` that the instance knows nothing of
};

/// Solves the master with every column at its bound, simulates those that the placement uses, and
/// again, until all that it uses are known. The bound is of the truth throughout: what is not
/// known counts at its most.
/// @param path names the request in errors
/// @throws Error{invalid_argument} for a request that contradicts itself, and what its callbacks
/// throw
PricedFleet plan_fleet(const FleetRequest& request, const DataFolders& folders,
                       const std::string& path = "request");

/// A fleet that somebody kept, to plan again from: columns are made as for the request, and those
/// that were known are simulated. @throws Error{unsupported} where they are other ones than the
/// fleet's
PricedFleet restored_fleet(const FleetRequest& request, const FleetInstance& instance,
                           FleetPlacement placement, const std::vector<std::size_t>& known,
                           const DataFolders& folders, const std::string& path = "request");

/// The same fleet for other demands or with fewer nodes of its classes: columns stay as they are
/// known, and the search starts from what runs. @param request of `before`, but for counts of
/// nodes, demands and how the search goes @param lost nodes of `before` that are gone: no longer
/// counted
PricedFleet replan_fleet(const PricedFleet& before, const FleetRequest& request,
                         const std::vector<std::int64_t>& lost = {});

}  // namespace tessera::solver

template <>
struct tessera::Fields<tessera::solver::FleetPricing> {
  using P = tessera::solver::FleetPricing;
  static constexpr auto list = std::tuple{
      field<&P::columns>({.name = "columns", .doc = "Kinds of replicas"}),
      field<&P::shapes>({.name = "shapes", .doc = "Engines that they are of"}),
      field<&P::simulated>({.name = "simulated", .doc = "Of these shapes"}),
      field<&P::rounds>({.name = "rounds", .doc = "Of master and simulation"}),
      field<&P::priced_s>({.name = "priced_s", .doc = "Of bounds", .unit = "s"}),
      field<&P::simulated_s>({.name = "simulated_s", .doc = "Of simulations", .unit = "s"}),
      field<&P::master_s>({.name = "master_s", .doc = "Of the master", .unit = "s"})};
};

template <>
struct tessera::Fields<tessera::solver::FleetRequest> {
  using R = tessera::solver::FleetRequest;
  static constexpr auto list = std::tuple{
      field<&R::objective, NotInFiles>(
          {.name = "objective",
           .doc = "The least money, the fewest devices, or the largest multiple of the demand",
           .as_option = AsOption::defaulted}),
      field<&R::billing, NotInFiles>(
          {.name = "billing",
           .doc = "Whether each device that a replica takes costs, or each node that runs anything",
           .as_option = AsOption::defaulted}),
      field<&R::max_usd_per_h, NotInFiles>(
          {.name = "max_usd_per_h", .doc = "Budget", .unit = "USD/h", .min = 0, .max = 1e18}),
      field<&R::switch_usd, NotInFiles>(
          {.name = "switch_usd",
           .doc = "Of each replica that starts or stops, beside what runs",
           .unit = "USD",
           .min = 0,
           .max = tessera::solver::kMaxUsdPerH,
           .as_option = AsOption::defaulted}),
      field<&R::hours, NotInFiles>({.name = "hours",
                                    .doc = "For which it stands: what switching is paid in",
                                    .unit = "h",
                                    .min = 1e-3,
                                    .max = 1e6,
                                    .as_option = AsOption::defaulted}),
      field<&R::gap, NotInFiles>({.name = "gap",
                                  .doc = "To stop at (ratio)",
                                  .min = 0,
                                  .max = 1e3,
                                  .as_option = AsOption::defaulted}),
      field<&R::time_limit_s, NotInFiles>({.name = "time_limit_s",
                                           .doc = "Of all of it",
                                           .unit = "s",
                                           .min = 0,
                                           .max = 1e7,
                                           .as_option = AsOption::defaulted}),
      field<&R::threads, NotInFiles>({.name = "threads",
                                      .doc = "0: all; the answer does not depend on it",
                                      .min = 0,
                                      .max = 1024,
                                      .as_option = AsOption::defaulted}),
      field<&R::seed, NotInFiles>({.name = "seed",
                                   .doc = "Of the search",
                                   .min = 0,
                                   .max = 1e9,
                                   .as_option = AsOption::defaulted}),
      field<&R::simulate_all, NotInFiles>(
          {.name = "simulate_all",
           .doc = "Simulate every shape first, instead of those that placements use",
           .as_option = AsOption::defaulted})};
};
