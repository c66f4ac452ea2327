#include "tessera/solver/instance/row.h"

#include <algorithm>
#include <cmath>

#include "tessera/solver/instance/instance.h"

namespace tessera::solver {

double Row::scale() const {
  double largest = std::fabs(rhs);
  for (const RowTerm& term : terms) largest = std::max(largest, std::fabs(term.coefficient));
  return largest > 0 ? largest : 1;
}

double left_side(const Row& row, const Candidate& candidate) {
  double sum = 0;
  for (const RowTerm& term : row.terms) {
    std::size_t count = 0;
    const std::size_t end = std::min(term.end_stage, candidate.order.size());
    for (std::size_t stage = term.first_stage; stage < end; ++stage) {
      if (!term.has_group(candidate.order[stage])) continue;
      for (auto i = candidate.first_layer[stage]; i < candidate.first_layer[stage + 1]; ++i) {
        const bool here = !term.layer || *term.layer == i;
        count += here && (!term.bit || *term.bit == candidate.bit[i]) ? 1 : 0;
      }
    }
    sum += term.coefficient * static_cast<double>(count);
  }
  return sum;
}

double excess(const Row& row, const Candidate& candidate) {
  const double over = (left_side(row, candidate) - row.rhs) / row.scale();
  double missed = std::fabs(over);
  if (row.sense == Sense::at_most) missed = over;
  if (row.sense == Sense::at_least) missed = -over;
  return missed > kRowSlack ? missed : 0;
}

}  // namespace tessera::solver
