#include "working_plan.h"

#include <algorithm>
#include <cmath>

namespace tessera::solver {

constexpr std::size_t kNoStage = static_cast<std::size_t>(-1);

WorkingPlan::WorkingPlan(const Instance& instance, Candidate start)
    : instance_(instance),
      prefill_(instance.prefill(start.prefill_micro_batch_size)),
      decode_(instance.decode(start.decode_micro_batch_size)),
      coefficients_(objective_coefficients(instance, instance.objective,
                                           start.prefill_micro_batch_size,
                                           start.decode_micro_batch_size)),
      at_(std::move(start)) {
  recompute();
}

std::size_t WorkingPlan::stage_of(std::size_t layer) const {
  return static_cast<std::size_t>(
      std::upper_bound(at_.first_layer.begin() + 1, at_.first_layer.end() - 1, layer) -
      at_.first_layer.begin() - 1);
}

WorkingPlan::Stage WorkingPlan::layer_on(std::size_t stage, std::size_t layer,
                                         std::size_t bit) const {
  const std::int32_t cls = instance_.layer_class[layer];
  const std::size_t group = at_.order[stage];
  Stage s;
  s.prefill_s = instance_.layer_s(prefill_, group, cls, bit);
  s.decode_s = instance_.layer_s(decode_, group, cls, bit);
  s.bytes = instance_.layer_bytes_at(group, cls, bit);
  return s;
}

void WorkingPlan::Largest::offer(double v, std::size_t k) {
  for (int i = 0; i < 3; ++i) {
    if (v <= value[i]) continue;
    std::swap(v, value[i]);
    std::swap(k, stage[i]);
  }
}

double WorkingPlan::Largest::without(std::size_t a, std::size_t b) const {
  for (int i = 0; i < 3; ++i) {
    if (stage[i] != a && stage[i] != b) return value[i];
  }
  return 0;
}

WorkingPlan::Times WorkingPlan::price(double prefill_max, double prefill_sum, double decode_max,
                                      double decode_sum) const {
  const ObjectiveCoefficients& c = coefficients_;
  return {c.prefill_max * prefill_max + c.prefill_sum * prefill_sum,
          c.decode_max * decode_max + c.decode_sum * decode_sum +
              c.round * std::max(c.round_micro_batches * decode_max, decode_sum)};
}

WorkingPlan::Times WorkingPlan::times_with(std::size_t stage, const Stage& sums, std::size_t other,
                                           const Stage& other_sums) const {
  double prefill_max =
      std::max({prefill_largest_.without(stage, other), link_prefill_, sums.prefill_s});
  double decode_max =
      std::max({decode_largest_.without(stage, other), link_decode_, sums.decode_s});
  double prefill_sum = prefill_sum_ - stage_[stage].prefill_s + sums.prefill_s;
  double decode_sum = decode_sum_ - stage_[stage].decode_s + sums.decode_s;
  if (other != stage) {
    prefill_max = std::max(prefill_max, other_sums.prefill_s);
    decode_max = std::max(decode_max, other_sums.decode_s);
    prefill_sum += other_sums.prefill_s - stage_[other].prefill_s;
    decode_sum += other_sums.decode_s - stage_[other].decode_s;
  }
  return price(prefill_max, prefill_sum, decode_max, decode_sum);
}

double WorkingPlan::excess() const {
  double excess = 0;
  for (const Stage& stage : stage_) {
    if (stage.bytes > stage.usable_bytes) {
      excess += (stage.bytes - stage.usable_bytes) / std::max(1.0, stage.usable_bytes);
    }
  }
  if (instance_.max_omega && omega_ > *instance_.max_omega) {
    const double over = omega_ - *instance_.max_omega;
    excess += over / std::max(1e-12, std::fabs(*instance_.max_omega));
  }
  for (const Row& row : instance_.rows) excess += solver::excess(row, at_);
  return excess;
}

void WorkingPlan::set_bit(std::size_t layer, std::size_t bit) {
  const std::size_t stage = stage_of(layer);
  add(stage, layer, -1);
  at_.bit[layer] = bit;
  add(stage, layer, 1);
  refresh();
}

void WorkingPlan::shift(std::size_t k, bool right, std::size_t bit) {
  const std::size_t layer = right ? at_.first_layer[k] : at_.first_layer[k] - 1;
  add(right ? k : k - 1, layer, -1);
  at_.bit[layer] = bit;
  at_.first_layer[k] = right ? layer + 1 : layer;
  add(right ? k - 1 : k, layer, 1);
  refresh();
}

void WorkingPlan::swap_groups(std::size_t a, std::size_t b) {
  std::swap(at_.order[a], at_.order[b]);
  recompute();
}

void WorkingPlan::add(std::size_t stage, std::size_t layer, double sign) {
  const Stage one = layer_on(stage, layer, at_.bit[layer]);
  stage_[stage].prefill_s += sign * one.prefill_s;
  stage_[stage].decode_s += sign * one.decode_s;
  stage_[stage].bytes += sign * one.bytes;
  omega_ += sign * instance_.omega_at(layer, at_.bit[layer]);
}

void WorkingPlan::refresh() {
  prefill_largest_ = decode_largest_ = {};
  for (Largest* largest : {&prefill_largest_, &decode_largest_}) {
    std::fill(largest->stage, largest->stage + 3, kNoStage);
  }
  prefill_sum_ = decode_sum_ = 0;
  for (std::size_t k = 0; k < stage_.size(); ++k) {
    prefill_largest_.offer(stage_[k].prefill_s, k);
    decode_largest_.offer(stage_[k].decode_s, k);
    prefill_sum_ += stage_[k].prefill_s;
    decode_sum_ += stage_[k].decode_s;
  }
  times_ = price(std::max(prefill_largest_.value[0], link_prefill_), prefill_sum_,
                 std::max(decode_largest_.value[0], link_decode_), decode_sum_);
}

void WorkingPlan::recompute() {
  const Evaluation e = evaluate(instance_, at_);
  stage_.clear();
  for (const StageEvaluation& s : e.stages) {
    stage_.push_back({s.prefill_s, s.decode_s, s.layers_bytes + s.fixed_bytes, s.usable_bytes});
  }
  omega_ = e.omega;
  link_prefill_ = link_decode_ = 0;
  for (std::size_t k = 1; k < at_.order.size(); ++k) {
    const std::size_t from = at_.order[k - 1], to = at_.order[k];
    link_prefill_ = std::max(link_prefill_, instance_.link_s(prefill_, from, to));
    link_decode_ = std::max(link_decode_, instance_.link_s(decode_, from, to));
  }
  refresh();
}

}  // namespace tessera::solver
