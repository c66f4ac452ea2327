#include <algorithm>

#include "tessera/solver/instance/instance.h"

namespace tessera::solver {
namespace {

StageEvaluation evaluate_stage(const Instance& instance, const Candidate& candidate,
                               std::size_t stage, const PhaseCosts& prefill,
                               const PhaseCosts& decode) {
  const std::size_t group = candidate.order[stage];
  const StagePlace place = place_at(stage, candidate.order.size());
  StageEvaluation e;
  for (std::size_t layer = candidate.first_layer[stage]; layer < candidate.first_layer[stage + 1];
       ++layer) {
    const std::int32_t cls = instance.layer_class[layer];
    const std::size_t bit = candidate.bit[layer];
    e.prefill_s += instance.layer_s(prefill, group, cls, bit);
    e.decode_s += instance.layer_s(decode, group, cls, bit);
    e.layers_bytes += instance.layer_bytes_at(group, cls, bit);
  }
  if (is_first(place)) {
    e.prefill_s += prefill.first_s[group];
    e.decode_s += decode.first_s[group];
  }
  if (is_last(place)) {
    e.prefill_s += prefill.last_s[group];
    e.decode_s += decode.last_s[group];
  }
  e.fixed_bytes = instance.fixed_bytes(group, place, prefill, decode);
  e.usable_bytes = instance.groups[group].usable_bytes;
  return e;
}

double price(const ObjectiveCoefficients& c, const Evaluation& e) {
  return c.prefill_max * e.prefill_max_s + c.prefill_sum * e.prefill_sum_s +
         c.decode_max * e.decode_max_s + c.decode_sum * e.decode_sum_s +
         c.round * std::max(c.round_micro_batches * e.decode_max_s, e.decode_sum_s);
}

}  // namespace

Evaluation evaluate(const Instance& instance, const Candidate& candidate) {
  const PhaseCosts& prefill = instance.prefill(candidate.prefill_micro_batch_size);
  const PhaseCosts& decode = instance.decode(candidate.decode_micro_batch_size);
  Evaluation e;
  for (std::size_t k = 0; k < candidate.order.size(); ++k) {
    const StageEvaluation stage = evaluate_stage(instance, candidate, k, prefill, decode);
    e.prefill_max_s = std::max(e.prefill_max_s, stage.prefill_s);
    e.decode_max_s = std::max(e.decode_max_s, stage.decode_s);
    e.prefill_sum_s += stage.prefill_s;
    e.decode_sum_s += stage.decode_s;
    e.stages.push_back(stage);
    if (k == 0) continue;
    const std::size_t from = candidate.order[k - 1], to = candidate.order[k];
    e.prefill_max_s = std::max(e.prefill_max_s, instance.link_s(prefill, from, to));
    e.decode_max_s = std::max(e.decode_max_s, instance.link_s(decode, from, to));
  }
  for (std::size_t layer = 0; layer < instance.num_layers(); ++layer) {
    e.omega += instance.omega_at(layer, candidate.bit[layer]);
  }
  const auto coefficients = [&](Objective objective) {
    return objective_coefficients(instance, objective, candidate.prefill_micro_batch_size,
                                  candidate.decode_micro_batch_size);
  };
  e.objective = price(coefficients(instance.objective), e) + instance.theta * e.omega;
  e.latency_s = price(coefficients(Objective::steady), e);
  return e;
}

double prefill_s(const Instance& instance, const Candidate& candidate, const Evaluation& e) {
  const ObjectiveCoefficients c =
      objective_coefficients(instance, Objective::steady, candidate.prefill_micro_batch_size,
                             candidate.decode_micro_batch_size);
  return c.prefill_max * e.prefill_max_s + c.prefill_sum * e.prefill_sum_s;
}

double decode_s(const Instance& instance, const Candidate& candidate, const Evaluation& e) {
  const ObjectiveCoefficients c =
      objective_coefficients(instance, Objective::steady, candidate.prefill_micro_batch_size,
                             candidate.decode_micro_batch_size);
  return std::max(c.round_micro_batches * e.decode_max_s, e.decode_sum_s);
}

}  // namespace tessera::solver
