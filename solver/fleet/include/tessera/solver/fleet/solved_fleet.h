#pragma once

#include <string>
#include <vector>

#include "tessera/solver/fleet/check.h"
#include "tessera/solver/fleet/fleet.h"

namespace tessera::solver {

/// An instance with a placement of it, and what is known of that.
struct SolvedFleet {
  FleetInstance instance;
  FleetAnswer answer;
  FleetCheck check;  ///< of the placement
  /// What else its file keeps, of named models: whoever made the columns reads it. Null: nothing.
  Json named = nullptr;

  double scale() const;  ///< multiple of the demand that is served, the reserve kept
};

/// @throws Error{internal} where the answer has a placement that does not keep to the instance
SolvedFleet solved(FleetInstance instance, FleetAnswer answer);

/// What people call a kind of replica.
std::string label_of(const Column& column);

/// Alike replicas on the same nodes.
struct ReplicaRow {
  std::size_t column = 0;
  std::string model, label, node_class;
  std::vector<std::int64_t> nodes;
  std::int64_t count = 0, gpus = 0;  ///< devices of all of them
  std::vector<double> rate;          ///< of each
};
/// In the order of the nodes.
std::vector<ReplicaRow> replica_rows(const SolvedFleet& fleet);

/// A kind of replica, wherever its replicas run.
struct ColumnRow {
  std::size_t column = 0;
  std::string model, label, node_class;
  std::int64_t count = 0, nodes = 0, gpus = 0;
};
/// A row for each column and class of nodes, in the order of the models.
std::vector<ColumnRow> column_rows(const SolvedFleet& fleet);

/// What one would say of it: the objective and how far from that the best may be, what runs each
/// model, what one more of anything is worth.
std::string fleet_text(const SolvedFleet& fleet);
std::string objective_text(const FleetInstance& instance, double objective);

/// `tessera-fleet-plan-1`: the instance, the placement and what was proven.
Json solved_fleet_json(const SolvedFleet& fleet);
/// The placement is checked, and what is derived of it derived anew.
/// @throws Error{invalid_argument | out_of_range | unsupported} naming the field
SolvedFleet solved_fleet_from_json(const Json& json, const std::string& path);
bool is_solved_fleet(const Json& json);

}  // namespace tessera::solver

namespace tessera {

template <>
struct Fields<solver::ReplicaRow> {
  using R = solver::ReplicaRow;
  static constexpr auto list =
      std::tuple{field<&R::column>({.name = "column_index", .doc = "Its kind (0-based)"}),
                 field<&R::model>({.name = "model", .doc = "That it runs"}),
                 field<&R::label>({.name = "label", .doc = "What its kind is called"}),
                 field<&R::node_class>({.name = "node_class", .doc = "Of its nodes"}),
                 field<&R::nodes>({.name = "node_indices", .doc = "Its nodes (0-based)"}),
                 field<&R::count>({.name = "count", .doc = "Alike ones there"}),
                 field<&R::gpus>({.name = "gpus", .doc = "Devices of all of them"}),
                 field<&R::rate>({.name = "rate_per_s", .doc = "Of each, by class of requests"})};
};

}  // namespace tessera
