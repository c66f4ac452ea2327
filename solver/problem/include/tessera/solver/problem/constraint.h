#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/json_fwd.h"
#include "tessera/solver/instance/instance.h"
#include "tessera/solver/instance/row.h"

namespace tessera::solver {

/// One term of a side constraint as scripts and files write it: how many layers match everything
/// given.
struct ConstraintTerm {
  std::optional<std::int64_t> stage;     ///< position in the pipeline, 1-based
  std::optional<std::int64_t> boundary;  ///< stages 1 to this one: where the next stage begins
  std::optional<std::string> device;     ///< "T4-16G", or "T4-16G@node"
  std::optional<std::int64_t> bitwidth;  ///< bits
  std::optional<std::int64_t> layer;     ///< one layer, 0-based
  double coefficient = 1;
};

/// A linear row that every plan must keep: sum of terms <sense> rhs.
struct Constraint {
  std::string name;
  std::vector<ConstraintTerm> terms;
  Sense sense = Sense::at_most;
  double rhs = 0;
};

Json to_json(const Constraint& constraint);

/// @throws Error{invalid_argument | out_of_range} naming the field under `path`.
Constraint constraint_from_json(const Json& json, const std::string& path);
/// A list of them, each with a name of its own.
std::vector<Constraint> constraints_from_json(const Json& json, const std::string& path);

/// The row for one instance's indices.
/// @throws Error{out_of_range | invalid_argument | not_found} for a stage, layer, bitwidth or
/// device that the instance does not have, naming the term under `path`.
Row resolve(const Constraint& constraint, const Instance& instance, const std::string& path);

}  // namespace tessera::solver
