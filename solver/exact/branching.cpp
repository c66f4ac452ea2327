#include "branching.h"

#include <algorithm>
#include <cmath>

namespace tessera::solver::exact {

Paid paid_times(const Pair& pair, const Box& box, const Multipliers& at, const Weights& w,
                const Path& path) {
  const ObjectiveCoefficients& c = pair.coefficients;
  const double decode_price = c.decode_max + c.round * at.lambda * c.round_micro_batches;
  const double decode_sum_price = c.decode_sum + c.round * (1 - at.lambda);
  double prefill = w.prefill_floor * box.prefill_low, decode = w.decode_floor * box.decode_low;
  for (const PathStage& stage : path.stages) {
    prefill += (w.prefill[stage.kind] - c.prefill_sum) * stage.prefill_s;
    decode += (w.decode[stage.kind] - decode_sum_price) * stage.decode_s;
  }
  Paid paid;
  paid.prefill_s = c.prefill_max > 0 ? prefill / c.prefill_max : box.prefill_low;
  // A price near 0 would divide rounding by rounding.
  const double largest_price = c.decode_max + c.round * c.round_micro_batches;
  paid.decode_s = decode_price > 1e-6 * largest_price ? decode / decode_price : box.decode_low;
  return paid;
}

Thin thin_sides(const Pair& pair, const Box& box) {
  const ObjectiveCoefficients& c = pair.coefficients;
  return {box.prefill_low == box.prefill_high || c.prefill_max == 0,
          box.decode_low == box.decode_high || c.decode_max + c.round * c.round_micro_batches == 0};
}

Branch choose_branch(const Pair& pair, const Box& box, const Multipliers& multipliers,
                     const Weights& w, const Path& path) {
  const ObjectiveCoefficients& c = pair.coefficients;
  const Paid paid = paid_times(pair, box, multipliers, w, path);
  const double tp = std::clamp(path.prefill_max_s, box.prefill_low, box.prefill_high);
  const double td = std::clamp(path.decode_max_s, box.decode_low, box.decode_high);
  const double decode_price = c.decode_max + c.round * multipliers.lambda * c.round_micro_batches;
  const double round = c.round * std::max(c.round_micro_batches * td, path.decode_sum_s) -
                       c.round * (multipliers.lambda * c.round_micro_batches * td +
                                  (1 - multipliers.lambda) * path.decode_sum_s);
  Branch branch;
  branch.prefill_gap = c.prefill_max * (tp - paid.prefill_s);
  branch.decode_gap = decode_price * (td - paid.decode_s) + round;

  const Thin thin = thin_sides(pair, box);
  branch.by_prefill = thin.decode || (!thin.prefill && branch.prefill_gap >= branch.decode_gap);
  const double low = branch.by_prefill ? box.prefill_low : box.decode_low;
  const double high = branch.by_prefill ? box.prefill_high : box.decode_high;
  const double credited = branch.by_prefill ? paid.prefill_s : paid.decode_s;
  const double time = branch.by_prefill ? tp : td;
  branch.at = time > low ? 0.5 * (std::clamp(credited, low, time) + time) : 0.5 * (low + high);
  if (!(branch.at >= low && branch.at < high)) branch.at = 0.5 * (low + high);
  if (!(branch.at >= low && branch.at < high)) branch.at = low;
  return branch;
}

Box lower_half(const Box& box, const Branch& branch) {
  Box half = box;
  (branch.by_prefill ? half.prefill_high : half.decode_high) = branch.at;
  return half;
}

Box upper_half(const Box& box, const Branch& branch) {
  Box half = box;
  (branch.by_prefill ? half.prefill_low : half.decode_low) = std::nextafter(branch.at, kInfinity);
  return half;
}

}  // namespace tessera::solver::exact
