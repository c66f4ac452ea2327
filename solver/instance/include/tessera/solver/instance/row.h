#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"

namespace tessera::solver {

struct Candidate;

enum class Sense { at_most, at_least, equal };

/// Counts the layers that match everything given, times a coefficient.
struct RowTerm {
  static constexpr std::size_t kNoEnd = std::numeric_limits<std::size_t>::max();

  std::size_t first_stage = 0, end_stage = kNoEnd;  ///< positions in [first_stage, end_stage)
  std::vector<std::uint8_t> groups;                 ///< [group] 1: counted; empty: every group
  std::optional<std::size_t> bit, layer;
  double coefficient = 1;

  bool any_group() const { return groups.empty(); }
  bool has_group(std::size_t group) const { return groups.empty() || groups[group] != 0; }
};

/// A side constraint as solvers see it: sum of terms <sense> rhs.
struct Row {
  std::string name;
  std::vector<RowTerm> terms;
  Sense sense = Sense::at_most;
  double rhs = 0;

  /// Size of the numbers in the row; both sides are compared in units of it.
  double scale() const;
};

/// Slack on a row in units of its scale: rounding of sums only.
inline constexpr double kRowSlack = 1e-9;

/// The left side for a well-formed candidate.
double left_side(const Row& row, const Candidate& candidate);

/// By how much a candidate misses the row, in units of its scale; 0 within the slack.
double excess(const Row& row, const Candidate& candidate);

}  // namespace tessera::solver

namespace tessera {

template <>
inline constexpr auto kEnumNames<solver::Sense> =
    enum_names<solver::Sense>({{solver::Sense::at_most, "<="},
                               {solver::Sense::at_least, ">="},
                               {solver::Sense::equal, "=="}});

}  // namespace tessera
