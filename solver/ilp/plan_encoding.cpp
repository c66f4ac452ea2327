// Plans from the values of the programme's columns, and column values from plans.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "formulation.h"
#include "tessera/solver/moves/assign_bits.h"

namespace tessera::solver {

std::optional<Candidate> Formulation::decode(const std::vector<double>& x) const {
  const auto count = [&](std::size_t column) {
    return column == kNone ? std::size_t{0}
                           : static_cast<std::size_t>(std::lround(std::max(0.0, x[column])));
  };
  Candidate plan;
  plan.prefill_micro_batch_size = problem_.prefill_size;
  plan.decode_micro_batch_size = problem_.decode_size;
  plan.first_layer.push_back(0);
  plan.bit.assign(layers_, 0);
  for (std::size_t j = 0; j < positions_; ++j) {
    std::size_t group = groups_;
    for (std::size_t g = 0; g < groups_; ++g) {
      if (count(x_[j * groups_ + g]) == 1) group = g;
    }
    if (group == groups_) break;
    const std::size_t begin = plan.first_layer.back(), end = count(e_[j]);
    if (end < begin || end > layers_) return std::nullopt;
    for (std::int32_t cls = 0; cls < instance_.num_classes; ++cls) {
      std::vector<std::size_t> members, counts;
      for (std::size_t b = 0; b < bits_; ++b) {
        counts.push_back(count(c_at(j, group, static_cast<std::size_t>(cls) * bits_ + b)));
      }
      for (std::size_t i = begin; i < end; ++i) {
        if (instance_.layer_class[i] != cls) continue;
        if (integral_[i] == 0) {
          members.push_back(i);
          continue;
        }
        const std::size_t* z = &z_[(i * positions_ + j) * bits_];
        const auto own = std::find_if(z, z + bits_, [&](std::size_t at) { return count(at) == 1; });
        const auto b = static_cast<std::size_t>(own - z);
        if (b == bits_ || counts[b] == 0) return std::nullopt;
        plan.bit[i] = b;
        --counts[b];
      }
      if (std::accumulate(counts.begin(), counts.end(), std::size_t{0}) != members.size()) {
        return std::nullopt;
      }
      assign_bits(instance_, members, counts, plan.bit);
    }
    plan.order.push_back(group);
    plan.first_layer.push_back(end);
  }
  if (plan.order.empty() || plan.first_layer.back() != layers_) return std::nullopt;
  return plan;
}

std::optional<std::vector<double>> Formulation::encode(const Candidate& plan) const {
  const std::size_t stages = plan.order.size();
  if (stages > positions_ || (problem_.order && plan.order != *problem_.order)) return std::nullopt;
  std::vector<double> x(model_.columns.size(), 0);
  for (std::size_t j = 0; j < positions_; ++j) {
    const std::size_t done = plan.first_layer[std::min(j + 1, stages)];
    x[e_[j]] = static_cast<double>(done);
    for (std::size_t i = 0; i < done; ++i) {
      if (s_[i * positions_ + j] != kNone) x[s_[i * positions_ + j]] = 1;
    }
  }
  for (std::size_t j = 0; j < stages; ++j) {
    const std::size_t g = plan.order[j];
    x[x_[j * groups_ + g]] = 1;
    if (j + 1 == stages) x[y_[j * groups_ + g]] = 1;
    for (std::size_t i = plan.first_layer[j]; i < plan.first_layer[j + 1]; ++i) {
      const auto cls = static_cast<std::size_t>(instance_.layer_class[i]);
      const std::size_t c = c_at(j, g, cls * bits_ + plan.bit[i]);
      const std::size_t z = z_[(i * positions_ + j) * bits_ + plan.bit[i]];
      if (c == kNone || z == kNone) return std::nullopt;
      x[c] += 1;
      x[z] = 1;
      for (const Product& product : products_) {
        const bool here = product.layer == i && product.position == j;
        if (here && product.bit.value_or(plan.bit[i]) == plan.bit[i]) x[product.columns[g]] = 1;
      }
    }
  }
  for (const Presence& presence : presences_) {
    const auto on = [&](std::size_t j) { return presence.groups[plan.order[j]] != 0; };
    const std::size_t first = presence.position.value_or(0);
    for (std::size_t j = first; j < (presence.position ? std::min(first + 1, stages) : stages);
         ++j) {
      if (on(j) && !(presence.position && j > 0 && on(j - 1))) x[presence.column] = 1;
    }
  }
  const Evaluation e = evaluate(instance_, plan);
  x[tp_] = e.prefill_max_s / prefill_unit_;
  x[td_] = e.decode_max_s / decode_unit_;
  x[round_] = std::max(problem_.coefficients.round_micro_batches * e.decode_max_s, e.decode_sum_s) /
              decode_unit_;
  for (std::size_t c = 0; c < x.size(); ++c) {
    const LinearModel::Column& column = model_.columns[c];
    const double slack = 1e-9 * std::max(1.0, std::fabs(x[c]));
    if (x[c] < column.low - slack || x[c] > column.high + slack) return std::nullopt;
  }
  return x;
}

}  // namespace tessera::solver
