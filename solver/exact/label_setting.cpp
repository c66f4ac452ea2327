#include "label_setting.h"

#include <algorithm>

namespace tessera::solver::exact {

LabelSetting::LabelSetting(const SearchSpace& space, const ConfigTable& table,
                           const PathSearch& search, const PathSearch::Task& task,
                           const Weights& weights, const std::vector<double>& omega_to_end)
    : space_(space),
      table_(table),
      search_(search),
      task_(task),
      weights_(weights),
      omega_to_end_(omega_to_end),
      layers_(space.num_layers()) {
  const std::size_t kinds = space.kinds().size();
  arcs_.resize(kNumStagePlaces * kinds * (layers_ + 1));
  for (const StagePlace place : kStagePlaces) {
    for (std::size_t kind = 0; kind < kinds; ++kind) list_arcs(place, kind);
  }
}

void LabelSetting::list_arcs(StagePlace place, std::size_t kind) {
  for (const Option& option : task_.options->at[place][kind]) {
    const auto& shape = table_.shapes()[table_.shape_of(option.config)];
    for (std::size_t i = option.low; i < option.high; ++i) {
      Arc arc;
      arc.config = option.config;
      arc.index = static_cast<std::uint32_t>(i);
      arc.length = static_cast<std::uint16_t>(shape.length);
      arc.weight = search_.option_weight(option, kind, i);
      arc.prefill_s = option.prefill_s;
      arc.decode_s = option.decode_s;
      arc.omega = table_.omega(option.config)[i];
      arcs_[slot(place, kind, shape.starts[i])].push_back(arc);
    }
  }
}

double LabelSetting::linear_cost(double prefill, double decode, double omega) const {
  const ObjectiveCoefficients& c = task_.pair->coefficients;
  return c.prefill_sum * prefill + c.decode_sum * decode + space_.instance().theta * omega;
}

LabelSetting::Result LabelSetting::run(double cutoff, std::size_t max_labels,
                                       const std::function<bool()>& should_stop) {
  cutoff_ = cutoff;
  waiting_.assign(task_.graph->num_states(), {});
  labels_.assign(1, Label{});
  waiting_[0] = {0};
  for (std::size_t s = 0; s < waiting_.size(); ++s) {
    std::vector<std::uint32_t> ids = std::move(waiting_[s]);
    if (ids.empty()) continue;
    drop_dominated(ids);
    for (const std::uint32_t id : ids) {
      extend(s, id);
      if (labels_.size() > max_labels || should_stop()) return {false, better_};
    }
  }
  return {true, better_};
}

void LabelSetting::extend(std::size_t state, std::uint32_t id) {
  static constexpr Arc kEmpty{};
  for (const Transition* t = task_.graph->begin(state); t != task_.graph->end(state); ++t) {
    if (search_.forbidden(task_, state, *t)) continue;
    for (const Arc& arc : arcs_[slot(t->place, t->kind, labels_[id].done)]) {
      add(state, id, *t, arc);
    }
    if (PathSearch::may_be_empty(task_, *t)) add(state, id, *t, kEmpty);
  }
}

void LabelSetting::add(std::size_t state, std::uint32_t from, const Transition& t, const Arc& arc) {
  const bool last = is_last(t.place);
  const Label& before = labels_[from];
  const std::size_t done = before.done + arc.length;
  Label label;
  label.weight = before.weight + arc.weight;
  label.prefill_max = std::max(before.prefill_max, arc.prefill_s);
  label.decode_max = std::max(before.decode_max, arc.decode_s);
  if (state != 0 && task_.graph->knows_links()) {
    const std::size_t groups = space_.instance().groups.size();
    const std::size_t previous = task_.graph->last_group(state);
    label.prefill_max =
        std::max(label.prefill_max, task_.pair->link_s(false, previous, t.group, groups));
    label.decode_max =
        std::max(label.decode_max, task_.pair->link_s(true, previous, t.group, groups));
  }
  const double rest = last ? 0 : search_.to_end(t.to, done);
  const Box& box = task_.box;
  const double bound = weights_.constant + label.weight + rest +
                       weights_.prefill_floor * std::max(0.0, label.prefill_max - box.prefill_low) +
                       weights_.decode_floor * std::max(0.0, label.decode_max - box.decode_low);
  if (bound >= cutoff_) return;
  label.omega = before.omega + arc.omega;
  if (space_.has_omega_limit()) {
    const double least = last ? 0 : omega_to_end_[t.to * (layers_ + 1) + done];
    // Sums in another order may differ in their last bits.
    if (label.omega + least > space_.omega_limit() + 1e-12 * std::abs(space_.omega_limit())) return;
  }
  label.cost = before.cost + linear_cost(arc.prefill_s, arc.decode_s, arc.omega);
  label.decode_sum = before.decode_sum + arc.decode_s;
  label.parent = from;
  label.done = static_cast<std::uint16_t>(done);
  label.stage = {t.group,    t.kind,        t.place,      before.done, arc.length,
                 arc.config, arc.prefill_s, arc.decode_s, arc.omega};
  if (last) return finish(label);
  waiting_[t.to].push_back(static_cast<std::uint32_t>(labels_.size()));
  labels_.push_back(label);
}

void LabelSetting::finish(const Label& label) {
  const bool true_groups = task_.graph->knows_links() || space_.order().has_value();
  Path path = price_path(space_, *task_.pair, stages_of(label), true_groups);
  if (!path.meets_floor || path.objective >= cutoff_) return;
  cutoff_ = path.objective;
  better_ = std::move(path);
}

std::vector<PathStage> LabelSetting::stages_of(const Label& label) const {
  std::vector<PathStage> stages{label.stage};
  for (std::uint32_t id = label.parent; id != 0; id = labels_[id].parent) {
    stages.push_back(labels_[id].stage);
  }
  std::reverse(stages.begin(), stages.end());
  return stages;
}

// Whether `a`, however it goes on, costs at most what `b` costs going on the same way: each term
// of the objective grows with its argument at most as fast as its price.
bool LabelSetting::dominates(const Label& a, const Label& b) const {
  if (space_.has_omega_limit() && a.omega > b.omega) return false;
  const ObjectiveCoefficients& c = task_.pair->coefficients;
  const Box& box = task_.box;
  const auto excess = [](double x, double y, double floor) {
    return std::max(0.0, std::max(x, floor) - std::max(y, floor));
  };
  const double prefill = excess(a.prefill_max, b.prefill_max, box.prefill_low);
  const double decode = excess(a.decode_max, b.decode_max, box.decode_low);
  const double sum = std::max(0.0, a.decode_sum - b.decode_sum);
  return a.cost + c.prefill_max * prefill + c.decode_max * decode +
             c.round * std::max(c.round_micro_batches * decode, sum) <=
         b.cost;
}

void LabelSetting::drop_dominated(std::vector<std::uint32_t>& ids) const {
  std::sort(ids.begin(), ids.end(), [&](std::uint32_t a, std::uint32_t b) {
    const Label &x = labels_[a], &y = labels_[b];
    if (x.done != y.done) return x.done < y.done;
    if (x.cost != y.cost) return x.cost < y.cost;
    return a < b;
  });
  std::size_t kept = 0, node = 0;
  for (const std::uint32_t id : ids) {
    if (kept > 0 && labels_[ids[kept - 1]].done != labels_[id].done) node = kept;
    bool drop = false;
    for (std::size_t i = node; !drop && i < kept; ++i) {
      drop = dominates(labels_[ids[i]], labels_[id]);
    }
    if (!drop) ids[kept++] = id;
  }
  ids.resize(kept);
}

}  // namespace tessera::solver::exact
