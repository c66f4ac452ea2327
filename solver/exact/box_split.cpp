#include "box_split.h"

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

Split choose_split(const Pair& pair, const Box& box, const Multipliers& multipliers,
                   const Weights& w, const Path& path) {
  const ObjectiveCoefficients& c = pair.coefficients;
  const Paid paid = paid_times(pair, box, multipliers, w, path);
  const double tp = std::clamp(path.prefill_max_s, box.prefill_low, box.prefill_high);
  const double td = std::clamp(path.decode_max_s, box.decode_low, box.decode_high);
  const double decode_price = c.decode_max + c.round * multipliers.lambda * c.round_micro_batches;
  const double round = c.round * std::max(c.round_micro_batches * td, path.decode_sum_s) -
                       c.round * (multipliers.lambda * c.round_micro_batches * td +
                                  (1 - multipliers.lambda) * path.decode_sum_s);
  Split split;
  split.prefill_gap = c.prefill_max * (tp - paid.prefill_s);
  split.decode_gap = decode_price * (td - paid.decode_s) + round;

  const Thin thin = thin_sides(pair, box);
  split.by_prefill = thin.decode || (!thin.prefill && split.prefill_gap >= split.decode_gap);
  const double low = split.by_prefill ? box.prefill_low : box.decode_low;
  const double high = split.by_prefill ? box.prefill_high : box.decode_high;
  const double credited = split.by_prefill ? paid.prefill_s : paid.decode_s;
  const double time = split.by_prefill ? tp : td;
  split.at = time > low ? 0.5 * (std::clamp(credited, low, time) + time) : 0.5 * (low + high);
  if (!(split.at >= low && split.at < high)) split.at = 0.5 * (low + high);
  if (!(split.at >= low && split.at < high)) split.at = low;
  return split;
}

Box lower_half(const Box& box, const Split& split) {
  Box half = box;
  (split.by_prefill ? half.prefill_high : half.decode_high) = split.at;
  return half;
}

Box upper_half(const Box& box, const Split& split) {
  Box half = box;
  (split.by_prefill ? half.prefill_low : half.decode_low) = std::nextafter(split.at, kInfinity);
  return half;
}

}  // namespace tessera::solver::exact
