#include "moves.h"

#include <algorithm>
#include <numeric>

#include "tessera/solver/moves/assign_bits.h"

namespace tessera::solver {
namespace {

std::optional<std::size_t> bit_index(const Instance& instance, std::int32_t bitwidth) {
  const auto& bits = instance.bitwidths;
  const auto it = std::find(bits.begin(), bits.end(), bitwidth);
  if (it == bits.end()) return std::nullopt;
  return static_cast<std::size_t>(it - bits.begin());
}

std::optional<Candidate> shifted(const WorkingPlan& plan, const Move& move) {
  Candidate c = plan.candidate();
  const auto from = static_cast<std::size_t>(move.from_stage);
  const auto to = static_cast<std::size_t>(move.to_stage);
  const auto n = static_cast<std::size_t>(move.num_layers);
  if (n < 1 || n > size_of(c, from)) return std::nullopt;
  if (to == from + 1) {
    c.first_layer[to] -= n;
  } else if (from == to + 1) {
    c.first_layer[from] += n;
  } else {
    return std::nullopt;
  }
  return c;
}

std::optional<Candidate> swapped(const WorkingPlan& plan, const Move& move) {
  Candidate c = plan.candidate();
  const auto layers = static_cast<std::int32_t>(c.bit.size());
  if (move.first_layer < 0 || move.first_layer >= layers || move.other_layer < 0 ||
      move.other_layer >= layers) {
    return std::nullopt;
  }
  std::swap(c.bit[static_cast<std::size_t>(move.first_layer)],
            c.bit[static_cast<std::size_t>(move.other_layer)]);
  return c;
}

std::optional<Candidate> retyped(const WorkingPlan& plan, const Move& move) {
  Candidate c = plan.candidate();
  const auto bit = bit_index(plan.instance(), move.to_bitwidth);
  if (!bit || move.first_layer < 0 || move.first_layer >= static_cast<std::int32_t>(c.bit.size())) {
    return std::nullopt;
  }
  c.bit[static_cast<std::size_t>(move.first_layer)] = *bit;
  return c;
}

// Bits of every stage from the first to the last that changed, given how many of each it has.
void assign_stages(const WorkingPlan& plan, Candidate& c,
                   const std::vector<std::vector<std::size_t>>& counts) {
  for (std::size_t k = 0; k < counts.size(); ++k) {
    if (counts[k].empty()) continue;
    std::vector<std::size_t> layers(size_of(c, k));
    std::iota(layers.begin(), layers.end(), c.first_layer[k]);
    assign_bits(plan.instance(), layers, counts[k], c.bit);
  }
}

std::optional<Candidate> by_rule(const WorkingPlan& plan, const Move& move) {
  const auto straggler = static_cast<std::size_t>(move.from_stage);
  const auto pioneer = static_cast<std::size_t>(move.to_stage);
  if (straggler == pioneer) return std::nullopt;
  const auto effect = effect_of(plan, move, bit_counts(plan, straggler), bit_counts(plan, pioneer));
  if (!effect || size_of(plan.candidate(), straggler) < effect->net) return std::nullopt;
  return after_rule(plan, straggler, pioneer, *effect);
}

std::optional<Candidate> resized(const WorkingPlan& plan, const Move& move) {
  Candidate c = plan.candidate();
  if (move.num_layers < 1 || move.num_layers > plan.instance().batch_size) return std::nullopt;
  if (move.first_layer != 0 && move.first_layer != 1) return std::nullopt;
  (move.first_layer == 0 ? c.prefill_micro_batch_size : c.decode_micro_batch_size) =
      move.num_layers;
  return c;
}

std::optional<Candidate> reordered(const WorkingPlan& plan, const Move& move) {
  Candidate c = plan.candidate();
  std::swap(c.order[static_cast<std::size_t>(move.from_stage)],
            c.order[static_cast<std::size_t>(move.to_stage)]);
  return c;
}

}  // namespace

std::size_t size_of(const Candidate& c, std::size_t stage) {
  return c.first_layer[stage + 1] - c.first_layer[stage];
}

std::vector<std::size_t> bit_counts(const WorkingPlan& plan, std::size_t stage) {
  std::vector<std::size_t> counts(plan.instance().num_bits());
  const Candidate& c = plan.candidate();
  for (auto i = c.first_layer[stage]; i < c.first_layer[stage + 1]; ++i) ++counts[c.bit[i]];
  return counts;
}

std::optional<RuleEffect> effect_of(const WorkingPlan& plan, const Move& move,
                                    const std::vector<std::size_t>& straggler,
                                    const std::vector<std::size_t>& pioneer) {
  const Instance& in = plan.instance();
  const auto st = bit_index(in, move.from_bitwidth), to = bit_index(in, move.to_bitwidth);
  if (!st || !to || move.num_layers < 1) return std::nullopt;
  const auto n = static_cast<std::size_t>(move.num_layers);
  if (straggler[*st] < n) return std::nullopt;
  RuleEffect effect{straggler, pioneer, n};
  effect.straggler[*st] -= n;
  if (move.pioneer_layers < 0) return std::nullopt;
  const auto changed = static_cast<std::size_t>(move.pioneer_layers);
  if (changed == 0) {
    effect.pioneer[*to] += n;
    return effect;
  }
  const auto before = bit_index(in, move.pioneer_bitwidth);
  if (!before || pioneer[*before] < changed) return std::nullopt;
  effect.pioneer[*before] -= changed;
  if (*before != *to) {
    effect.pioneer[*to] += n + changed;
    return effect;
  }
  if (n < changed) return std::nullopt;
  effect.pioneer[*st] += n;
  effect.straggler[*to] += changed;
  effect.net -= changed;
  return effect;
}

Candidate after_rule(const WorkingPlan& plan, std::size_t straggler, std::size_t pioneer,
                     const RuleEffect& effect) {
  std::vector<std::vector<std::size_t>> counts(plan.num_stages());
  for (std::size_t k = std::min(straggler, pioneer); k <= std::max(straggler, pioneer); ++k) {
    counts[k] = k == straggler ? effect.straggler
                : k == pioneer ? effect.pioneer
                               : bit_counts(plan, k);
  }
  Candidate c = plan.candidate();
  for (std::size_t k = straggler; k < pioneer; ++k) c.first_layer[k + 1] -= effect.net;
  for (std::size_t k = straggler; k > pioneer; --k) c.first_layer[k] += effect.net;
  assign_stages(plan, c, counts);
  return c;
}

std::optional<Candidate> result_of(const WorkingPlan& plan, const Move& move) {
  const auto stages = static_cast<std::int32_t>(plan.num_stages());
  if (move.from_stage < 0 || move.from_stage >= stages || move.to_stage < 0 ||
      move.to_stage >= stages || move.kind < 0 || move.kind >= kNumMoveKinds) {
    return std::nullopt;
  }
  switch (static_cast<MoveKind>(move.kind)) {
    case MoveKind::shift:
      return shifted(plan, move);
    case MoveKind::swap:
      return swapped(plan, move);
    case MoveKind::retype:
      return retyped(plan, move);
    case MoveKind::rule:
      return by_rule(plan, move);
    case MoveKind::micro_batch:
      return resized(plan, move);
    case MoveKind::order:
      return reordered(plan, move);
  }
  return std::nullopt;
}

Move priced(const WorkingPlan& plan, Move move) {
  move.objective_delta = move.prefill_delta_s = move.decode_delta_s = 0;
  move.omega_delta = move.memory_delta_bytes = 0;
  move.fits = false;
  const auto candidate = result_of(plan, move);
  if (!candidate) return move;
  move.fits = !find_violation(plan.instance(), *candidate);
  const WorkingPlan after(plan.instance(), *candidate);
  const auto to = static_cast<std::size_t>(move.to_stage);
  move.prefill_delta_s = after.times().prefill_s - plan.times().prefill_s;
  move.decode_delta_s = after.times().decode_s - plan.times().decode_s;
  move.omega_delta = after.omega() - plan.omega();
  move.objective_delta = after.objective() - plan.objective();
  move.memory_delta_bytes = after.stage(to).bytes - plan.stage(to).bytes;
  return move;
}

}  // namespace tessera::solver
