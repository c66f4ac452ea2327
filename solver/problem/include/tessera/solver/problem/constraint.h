#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/json_fwd.h"
#include "tessera/core/record.h"
#include "tessera/solver/instance/instance.h"
#include "tessera/solver/instance/row.h"

namespace tessera::solver {

inline constexpr double kMaxRowNumber = 1e15;  ///< beyond it a count no longer changes a sum

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

/// @throws Error{invalid_argument} for two of one name, naming the second under `path`, from [1].
void check_names_differ(const std::vector<Constraint>& constraints, const std::string& path);

/// The row for one instance's indices.
/// @throws Error{out_of_range | invalid_argument | not_found} for a stage, layer, bitwidth or
/// device that the instance does not have, naming the term under `path`.
Row resolve(const Constraint& constraint, const Instance& instance, const std::string& path);

}  // namespace tessera::solver

namespace tessera {

template <>
struct Fields<solver::ConstraintTerm> {
  using T = solver::ConstraintTerm;
  static constexpr double kMost = 1e6;
  static constexpr auto list =
      std::tuple{field<&T::stage>({.name = "stage",
                                   .doc = "On this stage (1-based)",
                                   .min = 1,
                                   .max = kMost,
                                   .in_file = InFile::when_set}),
                 field<&T::boundary>({.name = "boundary",
                                      .doc = "On stages 1 to this one: the first layer (0-based) "
                                             "of the stage after it",
                                      .min = 1,
                                      .max = kMost,
                                      .in_file = InFile::when_set}),
                 field<&T::device>({.name = "device",
                                    .doc = "On devices of this name, \"T4-16G\" or \"T4-16G@node\"",
                                    .in_file = InFile::when_set}),
                 field<&T::bitwidth>({.name = "bitwidth",
                                      .doc = "At this bitwidth",
                                      .unit = "bits",
                                      .min = 1,
                                      .max = 16,
                                      .in_file = InFile::when_set}),
                 field<&T::layer>({.name = "layer",
                                   .doc = "This one layer (0-based): 1 or 0",
                                   .min = 0,
                                   .max = kMost,
                                   .in_file = InFile::when_set}),
                 field<&T::coefficient>({.name = "coefficient",
                                         .doc = "What each such layer adds to the left side",
                                         .min = -solver::kMaxRowNumber,
                                         .max = solver::kMaxRowNumber,
                                         .in_file = InFile::defaulted,
                                         .as_option = AsOption::defaulted})};

  /// It says which layers count, and of stage and boundary gives one.
  static void check(const T& term, const FieldPath& path);
};

template <>
struct Fields<solver::Constraint> {
  using C = solver::Constraint;
  static constexpr auto list = std::tuple{
      field<&C::name>({.name = "name", .doc = "For messages", .as_option = AsOption::required}),
      field<&C::terms, ListFromOne<solver::ConstraintTerm>>(
          {.name = "terms",
           .doc = "List of { stage or boundary, device, bitwidth, layer, coefficient = 1 }: each "
                  "counts the layers that match everything given",
           .as_option = AsOption::required,
           .option_type = "table[]"}),
      field<&C::sense>({.name = "sense",
                        .doc = "How the left side compares with rhs",
                        .as_option = AsOption::required}),
      field<&C::rhs>({.name = "rhs",
                      .doc = "Right-hand side",
                      .min = -solver::kMaxRowNumber,
                      .max = solver::kMaxRowNumber,
                      .as_option = AsOption::required})};

  /// It has a name and a term at least.
  static void check(const C& constraint, const FieldPath& path);
};

}  // namespace tessera
