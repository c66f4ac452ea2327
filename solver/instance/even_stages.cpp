#include "tessera/solver/instance/even_stages.h"

#include <cmath>

namespace tessera::solver {
namespace {

constexpr double kNoWorse = 1e-9;  // of the objective: sums in another order

bool is_as_good(const Instance& instance, const Candidate& candidate, double objective) {
  return !find_violation(instance, candidate) &&
         evaluate(instance, candidate).objective <= objective + kNoWorse * std::fabs(objective);
}

// Moves the boundary in front of a stage as near to the middle as the plan allows.
bool even_out(const Instance& instance, std::size_t stage, double objective, Candidate& candidate) {
  const std::size_t first = candidate.first_layer[stage - 1],
                    end = candidate.first_layer[stage + 1];
  const std::size_t now = candidate.first_layer[stage], middle = (first + end + 1) / 2;
  for (std::size_t at = middle; at != now; at += now > middle ? 1 : -1) {
    Candidate moved = candidate;
    moved.first_layer[stage] = at;
    if (!is_as_good(instance, moved, objective)) continue;
    // Of an odd number either may have the layer more.
    const auto uneven = [&](std::size_t cut) {
      return std::llabs(static_cast<long long>(cut - first) - static_cast<long long>(end - cut));
    };
    if (uneven(at) >= uneven(now)) return false;
    candidate = std::move(moved);
    return true;
  }
  return false;
}

}  // namespace

Candidate even_stages(const Instance& instance, Candidate candidate) {
  const double objective = evaluate(instance, candidate).objective;
  // Each move lowers the sum of squares of the counts, so that it ends.
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t stage = 1; stage < candidate.order.size(); ++stage) {
      if (candidate.order[stage] != candidate.order[stage - 1]) continue;
      has_moved = even_out(instance, stage, objective, candidate) || has_moved;
    }
  }
  return candidate;
}

}  // namespace tessera::solver
