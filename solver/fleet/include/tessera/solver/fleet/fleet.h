#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/json.h"
#include "tessera/core/record.h"

/// A fleet: which replicas of which models run on which nodes. An instance is numbers and names
/// only; what a replica sustains, its columns say.
///
///     FleetMaster master(read_fleet("fleet.json"));     // master.h
///     FleetAnswer answer = master.solve(options);
///     master.set_rates(column, {3.2});                  // a bound became a rate: solve again
///     master.add_column(column);
///     answer = master.solve(options);                   // starts from the answer before
///     FleetCheck check = check_fleet(master.instance(), answer.placement);   // check.h
///
/// The bound of an answer holds for the rates and columns that the instance had in that call.
/// Where some of the rates are bounds themselves (no replica sustains more), so is that: solve,
/// simulate what the placement uses, set_rates, solve, until nothing that it uses is unknown.
namespace tessera::solver {

enum class FleetObjective {
  cost,  ///< USD/h, and what replicas that start or stop cost in that time
  gpus,  ///< devices that replicas take
  rate   ///< the largest multiple of the demand
};
enum class Billing {
  device,  ///< each device that a replica takes, at its type's price
  node     ///< each node that runs anything, at its class's price
};

/// How many devices of each type, by name.
using DeviceCounts = std::map<std::string, std::int32_t>;

struct FleetDevice {
  std::string name;
  double usd_per_h = 0;
};

/// Alike nodes. Nodes are numbered from 0 through all classes, the first class first.
struct NodeClass {
  std::string name;
  std::int64_t count = 1;
  DeviceCounts devices;  ///< of each node
  double usd_per_h = 0;  ///< of each node
};

struct FleetModel {
  std::string name;
  std::vector<double> demand;  ///< requests/s by class of requests
  double weight = 1;           ///< of objective `rate`: the demand counts so often
};

/// A kind of replica.
struct Column {
  std::size_t model = 0;
  /// Of one node. Of replicas over whole nodes, which have all devices of theirs: the least that
  /// each node must have.
  DeviceCounts devices;
  /// Requests/s of each class when it serves that class alone; shares of its time add up. 0: none.
  std::vector<double> rate;
  std::int64_t nodes = 1;                      ///< more than one: whole nodes of one class
  std::optional<std::size_t> node_class = {};  ///< the only one; absent: any that has the devices
  std::string label = {};                      ///< for people, and whoever made it
};

/// What a fleet has to keep to besides, for one model. Absent fields ask nothing.
struct FleetConstraint {
  std::size_t model = 0;
  std::optional<std::int64_t> min_nodes = {};  ///< with a part of a replica on them
  std::optional<std::int64_t> min_replicas = {};
  std::optional<std::int64_t> max_replicas = {};
  std::optional<std::int64_t> max_gpus = {};    ///< that its replicas take
  std::optional<std::string> device_type = {};  ///< of which `max_gpus` speaks; absent: all
  std::optional<std::size_t> not_beside = {};   ///< a model that has no part on its nodes
};

/// One replica.
struct Replica {
  std::size_t column = 0;
  std::vector<std::int64_t> nodes;

  bool operator==(const Replica&) const = default;
};
using FleetPlacement = std::vector<Replica>;

struct FleetInstance {
  std::string name;
  FleetObjective objective = FleetObjective::cost;
  Billing billing = Billing::device;
  /// The demand, or its multiple, is served when any so many nodes are lost, with all replicas that
  /// have a part on them. 2 and more: of each model the worst, as if they were lost at once.
  std::int64_t reserve_nodes = 0;
  std::optional<double> max_usd_per_h;
  std::vector<FleetDevice> device_types;
  std::vector<NodeClass> node_classes;
  std::vector<FleetModel> models;
  std::vector<Column> columns;
  std::vector<FleetConstraint> constraints;
  /// What runs before it, and where it is one of a row, what runs after it. Replicas are the same
  /// by their column and their nodes; each that starts or stops costs `switch_usd` once, and the
  /// fleet stands for `hours`.
  std::vector<FleetPlacement> around;
  double switch_usd = 0;
  double hours = 1;

  std::int64_t num_nodes() const;
  /// USD/h of a replica that starts or stops.
  double switch_usd_per_h() const { return around.empty() ? 0 : switch_usd / hours; }
};

enum class FleetStatus {
  optimal,      ///< proven, to 1e-6 of the objective
  gap_reached,  ///< within the gap that was asked for
  stopped,      ///< as far as search goes that proves no more (large reserves)
  time_limit,
  interrupted,
  infeasible
};

/// What one more of something is worth: a dual price of the linear programme, for small changes.
struct DualPrice {
  std::string name;  ///< of the device type, or the model
  /// Of objective `cost`: USD/h; of `gpus`: devices; of `rate`: multiples of the demand. Of devices
  /// what one more saves or adds, in the class of nodes where it is worth most; of models what one
  /// more request/s costs (classes of requests in the ratio of the demand).
  double value = 0;
  std::string node_class = {};  ///< of devices: where
};

/// What an instance without a placement lacks.
struct FleetLack {
  enum class Kind {
    column,   ///< no kind of replica fits on any node, or serves a class of requests
    devices,  ///< the nodes, with all else as it is
    reserve,  ///< the demand can be served, but not when nodes are lost
    budget,
    constraint  ///< of those besides
  };
  Kind kind = Kind::devices;
  std::vector<std::string> models;  ///< that lack it
  std::optional<double> have;   ///< USD/h of a budget; the multiple of the demand that is served
  std::optional<double> least;  ///< that would do: USD/h of a budget, nodes more, ...
  std::string message;          ///< all of it in words
};

struct FleetAnswer {
  FleetStatus status = FleetStatus::infeasible;
  std::optional<double> objective;
  std::optional<double> bound;  ///< no placement is better; of the columns as they are
  std::optional<double> gap;    ///< |objective - bound| of the objective
  double solve_s = 0;
  double usd_per_h = 0;
  std::int64_t gpus = 0;
  FleetPlacement placement;
  std::vector<DualPrice> device_prices, model_prices;
  std::optional<FleetLack> lack;  ///< of `infeasible`
  std::vector<std::string> notes;
};

/// Seen during a search.
struct FleetIncumbent {
  double objective = 0;
  std::optional<double> bound;
  double elapsed_s = 0;
  std::string found_by = {};
};

struct FleetOptions {
  double gap = 0.01;                  ///< to stop at; nothing is proven closer than 1e-6
  std::optional<double> enough = {};  ///< an objective to stop at, whatever the bound
  double time_limit_s = 60;
  std::int64_t threads = 0;  ///< the search takes one, whatever is given here
  std::int64_t seed = 1;
  /// Asked at least ten times a second; true ends the search: `interrupted`.
  std::function<bool()> should_stop = {};
  std::function<void(const FleetIncumbent&, const FleetPlacement&)> on_incumbent = {};
  /// A rule of rounding: of the copies of columns in the linear programme ([column], over all
  /// nodes) it says how many it wants of each; what comes of it is repaired, packed and checked.
  std::function<std::vector<double>(const std::vector<double>&)> round = {};
  /// A placement to start from, also one that no longer does; empty: the last answer's.
  FleetPlacement start = {};
};

/// Rows of files and of plans: `{ "A100": 2 }`.
struct DeviceCountsJson {
  static Json write(const DeviceCounts& devices);
  static DeviceCounts read(const Json& json, const std::string& path, const FieldSpec& spec);
};

/// What a `tessera-fleet-1` file holds.
Json fleet_json(const FleetInstance& instance);
/// @throws Error{invalid_argument | out_of_range | unsupported} naming the field
FleetInstance fleet_from_json(const Json& json, const std::string& path);
FleetInstance read_fleet(const std::string& path);
/// Names, indices and ranges of an instance that did not come from a file. @throws as above
void check_instance(const FleetInstance& instance, const std::string& path);

/// `[{ column, nodes }]`, a row for each replica. Columns and nodes are checked against nothing.
Json placement_json(const FleetPlacement& placement);
FleetPlacement placement_from_json(const Json& json, const std::string& path);

inline constexpr double kMaxUsdPerH = 1e9, kMaxRatePerS = 1e15;
inline constexpr std::int64_t kMaxFleetNodes = 10'000'000, kMaxNodeDevices = 4096;
inline constexpr std::size_t kMaxFleetColumns = 100'000;

}  // namespace tessera::solver

namespace tessera {

template <>
inline constexpr auto kEnumNames<solver::FleetObjective> =
    enum_names<solver::FleetObjective>({{solver::FleetObjective::cost, "cost"},
                                        {solver::FleetObjective::gpus, "gpus"},
                                        {solver::FleetObjective::rate, "rate"}});
template <>
inline constexpr auto kEnumNames<solver::Billing> = enum_names<solver::Billing>(
    {{solver::Billing::device, "device"}, {solver::Billing::node, "node"}});
template <>
inline constexpr auto kEnumNames<solver::FleetStatus> =
    enum_names<solver::FleetStatus>({{solver::FleetStatus::optimal, "optimal"},
                                     {solver::FleetStatus::gap_reached, "gap_reached"},
                                     {solver::FleetStatus::stopped, "stopped"},
                                     {solver::FleetStatus::time_limit, "time_limit"},
                                     {solver::FleetStatus::interrupted, "interrupted"},
                                     {solver::FleetStatus::infeasible, "infeasible"}});
template <>
inline constexpr auto kEnumNames<solver::FleetLack::Kind> =
    enum_names<solver::FleetLack::Kind>({{solver::FleetLack::Kind::column, "column"},
                                         {solver::FleetLack::Kind::devices, "devices"},
                                         {solver::FleetLack::Kind::reserve, "reserve"},
                                         {solver::FleetLack::Kind::budget, "budget"},
                                         {solver::FleetLack::Kind::constraint, "constraint"}});

template <>
struct Fields<solver::FleetDevice> {
  using T = solver::FleetDevice;
  static constexpr auto list =
      std::tuple{field<&T::name>({.name = "name", .doc = "Name to refer to it by"}),
                 field<&T::usd_per_h>({.name = "usd_per_h",
                                       .doc = "Price of a device",
                                       .unit = "USD/h",
                                       .min = 0,
                                       .max = solver::kMaxUsdPerH})};
};

template <>
struct Fields<solver::NodeClass> {
  using C = solver::NodeClass;
  static constexpr auto list =
      std::tuple{field<&C::name>({.name = "name", .doc = "Name to refer to it by"}),
                 field<&C::count>({.name = "count",
                                   .doc = "How many such nodes",
                                   .min = 0,
                                   .max = static_cast<double>(solver::kMaxFleetNodes)}),
                 field<&C::devices, solver::DeviceCountsJson>(
                     {.name = "devices", .doc = "Of each node, by type", .min = 0}),
                 field<&C::usd_per_h>({.name = "usd_per_h",
                                       .doc = "Price of a node",
                                       .unit = "USD/h",
                                       .min = 0,
                                       .max = solver::kMaxUsdPerH})};
};

template <>
struct Fields<solver::FleetModel> {
  using M = solver::FleetModel;
  static constexpr auto list =
      std::tuple{field<&M::name>({.name = "name", .doc = "Name to refer to it by"}),
                 field<&M::demand>({.name = "demand",
                                    .doc = "Of each class of requests",
                                    .unit = "1/s",
                                    .min = 0,
                                    .max = solver::kMaxRatePerS}),
                 field<&M::weight>({.name = "weight",
                                    .doc = "How often its demand counts in objective rate",
                                    .min = 1e-6,
                                    .max = 1e6,
                                    .in_file = InFile::when_set})};
};

template <>
struct Fields<solver::Column> {
  using C = solver::Column;
  static constexpr auto list = std::tuple{
      field<&C::model>({.name = "model", .doc = "That it runs (0-based)", .min = 0, .max = 1e6}),
      field<&C::devices, solver::DeviceCountsJson>(
          {.name = "devices", .doc = "That it takes of a node, by type", .min = 0}),
      field<&C::rate>({.name = "rate",
                       .doc = "Of each class of requests, served alone",
                       .unit = "1/s",
                       .min = 0,
                       .max = solver::kMaxRatePerS}),
      field<&C::nodes>({.name = "nodes",
                        .doc = "Whole nodes that it takes; 1: a part of one",
                        .min = 1,
                        .max = 1e6,
                        .in_file = InFile::when_set}),
      field<&C::node_class>({.name = "node_class",
                             .doc = "The only class that it runs on (0-based)",
                             .min = 0,
                             .max = 1e6,
                             .in_file = InFile::when_set}),
      field<&C::label>(
          {.name = "label", .doc = "What people call it", .in_file = InFile::when_set})};
};

template <>
struct Fields<solver::FleetConstraint> {
  using C = solver::FleetConstraint;
  static constexpr auto list = std::tuple{
      field<&C::model>(
          {.name = "model", .doc = "Of which it speaks (0-based)", .min = 0, .max = 1e6}),
      field<&C::min_nodes>({.name = "min_nodes",
                            .doc = "Nodes with a part of it, at least",
                            .min = 0,
                            .max = 1e7,
                            .in_file = InFile::when_set}),
      field<&C::min_replicas>({.name = "min_replicas",
                               .doc = "Replicas, at least",
                               .min = 0,
                               .max = 1e9,
                               .in_file = InFile::when_set}),
      field<&C::max_replicas>({.name = "max_replicas",
                               .doc = "Replicas, at most",
                               .min = 0,
                               .max = 1e9,
                               .in_file = InFile::when_set}),
      field<&C::max_gpus>({.name = "max_gpus",
                           .doc = "Devices that its replicas take, at most",
                           .min = 0,
                           .max = 1e12,
                           .in_file = InFile::when_set}),
      field<&C::device_type>({.name = "device_type",
                              .doc = "Of which max_gpus speaks; absent: all",
                              .in_file = InFile::when_set}),
      field<&C::not_beside>({.name = "not_beside",
                             .doc = "A model that has no part on the same node (0-based)",
                             .min = 0,
                             .max = 1e6,
                             .in_file = InFile::when_set})};
};

template <>
struct Fields<solver::Replica> {
  using R = solver::Replica;
  static constexpr auto list = std::tuple{
      field<&R::column>({.name = "column", .doc = "Its kind (0-based)", .min = 0, .max = 1e6}),
      field<&R::nodes>({.name = "nodes",
                        .doc = "On which it runs (0-based)",
                        .min = 0,
                        .max = static_cast<double>(solver::kMaxFleetNodes)})};
};

template <>
struct Fields<solver::FleetInstance> {
  using I = solver::FleetInstance;
  static constexpr auto list = std::tuple{
      field<&I::name>({.name = "name", .doc = "What it is", .in_file = InFile::defaulted}),
      field<&I::objective>({.name = "objective", .doc = "What is best"}),
      field<&I::billing>({.name = "billing", .doc = "What costs", .in_file = InFile::defaulted}),
      field<&I::reserve_nodes>({.name = "reserve_nodes",
                                .doc = "Nodes that may be lost",
                                .min = 0,
                                .max = 1000,
                                .in_file = InFile::defaulted}),
      field<&I::max_usd_per_h>({.name = "max_usd_per_h",
                                .doc = "Budget",
                                .unit = "USD/h",
                                .min = 0,
                                .max = 1e18,
                                .in_file = InFile::when_set}),
      field<&I::device_types>({.name = "device_types", .doc = "With their prices"}),
      field<&I::node_classes>({.name = "node_classes", .doc = "Alike nodes"}),
      field<&I::models>({.name = "models", .doc = "With their demands"}),
      field<&I::columns>({.name = "columns", .doc = "Kinds of replicas"}),
      field<&I::constraints>({.name = "constraints",
                              .doc = "What the fleet has to keep to besides",
                              .in_file = InFile::when_set}),
      field<&I::around>({.name = "around",
                         .doc = "What runs before it, and what runs after it",
                         .in_file = InFile::when_set}),
      field<&I::switch_usd>({.name = "switch_usd",
                             .doc = "Of each replica that starts or stops",
                             .unit = "USD",
                             .min = 0,
                             .max = solver::kMaxUsdPerH,
                             .in_file = InFile::when_set}),
      field<&I::hours>({.name = "hours",
                        .doc = "For which it stands",
                        .unit = "h",
                        .min = 1e-3,
                        .max = 1e6,
                        .in_file = InFile::when_set})};
};

template <>
struct Fields<solver::FleetOptions> {
  using O = solver::FleetOptions;
  static constexpr auto list = std::tuple{
      field<&O::gap>({.name = "gap",
                      .doc = "Distance to the bound at which to stop (ratio)",
                      .min = 0,
                      .max = 1,
                      .as_option = AsOption::defaulted}),
      field<&O::time_limit_s>({.name = "time_limit_s",
                               .doc = "After which the best so far has to do",
                               .unit = "s",
                               .min = 0.001,
                               .max = 1e7,
                               .as_option = AsOption::defaulted}),
      field<&O::threads>({.name = "threads",
                          .doc = "The search of given columns takes one; the answer is the same",
                          .min = 0,
                          .max = 4096,
                          .as_option = AsOption::defaulted}),
      field<&O::seed>({.name = "seed",
                       .doc = "Of what is drawn",
                       .min = 0,
                       .max = 9e15,
                       .as_option = AsOption::defaulted})};
};

template <>
struct Fields<solver::DualPrice> {
  using D = solver::DualPrice;
  static constexpr auto list = std::tuple{
      field<&D::name>({.name = "name", .doc = "Of the device type, or the model"}),
      field<&D::value>({.name = "value", .doc = "What one more is worth, of the objective's unit"}),
      field<&D::node_class>({.name = "node_class",
                             .doc = "Of devices: where one more is worth most",
                             .in_file = InFile::when_set})};
};

template <>
struct Fields<solver::FleetLack> {
  using L = solver::FleetLack;
  static constexpr auto list = std::tuple{
      field<&L::kind>({.name = "kind", .doc = "What lacks"}),
      field<&L::models>({.name = "models", .doc = "That lack it"}),
      field<&L::have>({.name = "have",
                       .doc = "USD/h of a budget, else the multiple of the demand that is served",
                       .in_file = InFile::when_set}),
      field<&L::least>({.name = "least",
                        .doc = "That would do: USD/h of a budget, nodes more",
                        .in_file = InFile::when_set}),
      field<&L::message>({.name = "message", .doc = "All of it in words"})};
};

template <>
struct Fields<solver::FleetAnswer> {
  using A = solver::FleetAnswer;
  static constexpr auto list = std::tuple{
      field<&A::status>({.name = "status", .doc = "How the search ended"}),
      field<&A::objective>({.name = "objective", .doc = "Of the placement"}),
      field<&A::bound>({.name = "bound", .doc = "No placement of these columns is better"}),
      field<&A::gap>({.name = "gap", .doc = "Objective against bound (ratio)"}),
      field<&A::solve_s>({.name = "solve_s", .doc = "Of the search", .unit = "s"}),
      field<&A::usd_per_h>({.name = "usd_per_h", .doc = "Of the placement", .unit = "USD/h"}),
      field<&A::gpus>({.name = "gpus", .doc = "Devices that replicas take"}),
      field<&A::device_prices>(
          {.name = "device_prices", .doc = "What one more device of a type is worth"}),
      field<&A::model_prices>(
          {.name = "model_prices", .doc = "What one more request/s of a model costs"}),
      field<&A::notes>({.name = "notes", .doc = "What else to know"})};
};

}  // namespace tessera
