#include "stage_dp.h"

#include <algorithm>
#include <limits>

namespace tessera::solver::replan_detail {
namespace {

/// Labels kept at a node, and answers given.
constexpr std::size_t kMostLabels = 12, kMostAnswers = 4;

}  // namespace

StageProgramme::StageProgramme(const Instance& instance, const std::vector<Holding>& holdings,
                               const WeightBytes& weights, const Setting& setting,
                               const Candidate& optimum, std::int64_t prefill_micro_batch_size,
                               std::int64_t decode_micro_batch_size)
    : instance_(instance),
      weights_(weights),
      setting_(setting),
      optimum_(optimum),
      prefill_size_(prefill_micro_batch_size),
      decode_size_(decode_micro_batch_size),
      prefill_(instance.prefill(prefill_micro_batch_size)),
      decode_(instance.decode(decode_micro_batch_size)),
      coefficients_(objective_coefficients(instance, instance.objective, prefill_micro_batch_size,
                                           decode_micro_batch_size)) {
  const std::size_t layers = instance.num_layers(), none = instance.num_bits();
  const auto index_of = [&](std::int32_t bitwidth) {
    const auto& all = instance.bitwidths;
    return static_cast<std::size_t>(std::find(all.begin(), all.end(), bitwidth) - all.begin());
  };
  earlier_bit_.assign(layers, none);
  std::vector<std::vector<std::size_t>> held(holdings.size(),
                                             std::vector<std::size_t>(layers, none));
  for (std::size_t h = 0; h < holdings.size(); ++h) {
    for (std::size_t i = 0; i < holdings[h].bitwidths.size(); ++i) {
      const std::size_t layer = holdings[h].first_layer + i;
      if (layer < layers) earlier_bit_[layer] = held[h][layer] = index_of(holdings[h].bitwidths[i]);
    }
  }
  for (std::size_t k = 0; k < setting.order.size(); ++k) {
    held_bit_.push_back(setting.from[k] ? held[*setting.from[k]]
                                        : std::vector<std::size_t>(layers, none));
    add_sums(k);
    if (k == 0) continue;
    const std::size_t from = setting.order[k - 1], to = setting.order[k];
    slowest_prefill_link_s_ =
        std::max(slowest_prefill_link_s_, instance.link_s(prefill_, from, to));
    slowest_decode_link_s_ = std::max(slowest_decode_link_s_, instance.link_s(decode_, from, to));
  }
  add_rests();
}

// Rules: what is held stays (even) or goes as well (odd); the others take one bitwidth, the
// optimum's, or the earlier plan's.
std::size_t StageProgramme::bit_of(std::size_t stage, std::size_t rule, std::size_t layer) const {
  const std::size_t bits = instance_.num_bits(), held = held_bit_[stage][layer];
  const std::size_t others = rule / 2;
  std::size_t bit = others;
  if (others == bits) bit = optimum_.bit[layer];
  if (others == bits + 1) bit = earlier_bit_[layer];
  if (rule % 2 == 0 && held < bits) bit = held;
  return bit < bits && instance_.allowed_at(setting_.order[stage], bit) ? bit : bits;
}

void StageProgramme::add_sums(std::size_t stage) {
  const std::size_t group = setting_.order[stage], bits = instance_.num_bits();
  sums_.emplace_back();
  for (std::size_t rule = 0; rule < num_rules(); ++rule) {
    std::vector<Sums> sums(1);
    for (std::size_t i = 0; i < instance_.num_layers(); ++i) {
      Sums next = sums.back();
      const std::size_t bit = bit_of(stage, rule, i);
      const std::int32_t cls = instance_.layer_class[i];
      if (bit == bits) {
        ++next.impossible;
      } else {
        next.prefill_s += instance_.layer_s(prefill_, group, cls, bit);
        next.decode_s += instance_.layer_s(decode_, group, cls, bit);
        next.bytes += instance_.layer_bytes_at(group, cls, bit);
        next.omega += instance_.omega_at(i, bit);
        if (bit != held_bit_[stage][i]) {
          next.loaded += weights_.layer[static_cast<std::size_t>(cls) * bits + bit];
        }
      }
      sums.push_back(next);
    }
    sums_.back().push_back(std::move(sums));
  }
}

void StageProgramme::add_rests() {
  rest_.assign(instance_.num_layers() + 1, {});
  for (std::size_t i = instance_.num_layers(); i-- > 0;) {
    Label least;
    least.cost = least.decode_s = least.omega = std::numeric_limits<double>::infinity();
    for (const std::size_t group : setting_.order) {
      for (std::size_t bit = 0; bit < instance_.num_bits(); ++bit) {
        if (!instance_.allowed_at(group, bit)) continue;
        const double p = instance_.layer_s(prefill_, group, instance_.layer_class[i], bit);
        const double d = instance_.layer_s(decode_, group, instance_.layer_class[i], bit);
        const double omega = instance_.omega_at(i, bit);
        least.cost =
            std::min(least.cost, coefficients_.prefill_sum * p + coefficients_.decode_sum * d +
                                     instance_.theta * omega);
        least.decode_s = std::min(least.decode_s, d);
        least.omega = std::min(least.omega, omega);
      }
    }
    rest_[i].cost = rest_[i + 1].cost + least.cost;
    rest_[i].decode_s = rest_[i + 1].decode_s + least.decode_s;
    rest_[i].omega = rest_[i + 1].omega + least.omega;
  }
}

// Least that the objective can still become.
double StageProgramme::objective(const Label& label, const Limits& limits, std::size_t end) const {
  const double round = std::max(coefficients_.round_micro_batches * limits.decode_s,
                                label.decode_s + rest_[end].decode_s);
  return limits.fixed + label.cost + rest_[end].cost + coefficients_.round * round;
}

void StageProgramme::insert(std::vector<Label>& labels, const Label& label, const Limits& limits,
                            std::size_t end) const {
  const bool floor = instance_.max_omega.has_value();
  const auto covers = [floor](const Label& a, const Label& b) {
    return a.loaded <= b.loaded && a.cost <= b.cost && a.decode_s <= b.decode_s &&
           (!floor || a.omega <= b.omega);
  };
  for (const Label& other : labels) {
    if (covers(other, label)) return;
  }
  labels.erase(std::remove_if(labels.begin(), labels.end(),
                              [&](const Label& other) { return covers(label, other); }),
               labels.end());
  labels.push_back(label);
  if (labels.size() <= kMostLabels) return;
  // Too many: the one that is worst on both counts together goes.
  double most_loaded = 1;
  for (const Label& other : labels) most_loaded = std::max(most_loaded, other.loaded);
  const auto badness = [&](const Label& l) {
    return l.loaded / most_loaded + objective(l, limits, end) / limits.objective;
  };
  labels.erase(std::max_element(labels.begin(), labels.end(), [&](const Label& a, const Label& b) {
    return badness(a) < badness(b);
  }));
}

void StageProgramme::extend(Labels& labels, std::size_t stage, std::size_t begin, std::size_t end,
                            const Limits& limits) const {
  const std::size_t group = setting_.order[stage];
  const StagePlace place = place_at(stage, setting_.order.size());
  const double room = instance_.groups[group].usable_bytes * (1 + kMemorySlack) -
                      instance_.fixed_bytes(group, place, prefill_, decode_);
  const auto ends = [&](const PhaseCosts& costs) {
    return (is_first(place) ? costs.first_s[group] : 0) +
           (is_last(place) ? costs.last_s[group] : 0);
  };
  for (std::size_t rule = 0; rule < num_rules(); ++rule) {
    const Sums &low = sums_[stage][rule][begin], &high = sums_[stage][rule][end];
    const double prefill = high.prefill_s - low.prefill_s + ends(prefill_);
    const double decode = high.decode_s - low.decode_s + ends(decode_);
    if (high.impossible != low.impossible || high.bytes - low.bytes > room ||
        prefill > limits.prefill_s || decode > limits.decode_s) {
      continue;
    }
    const double omega = high.omega - low.omega;
    const auto& before = labels[stage][begin];
    for (std::size_t i = 0; i < before.size(); ++i) {
      Label next{before[i].loaded + high.loaded - low.loaded,
                 before[i].cost + coefficients_.prefill_sum * prefill +
                     coefficients_.decode_sum * decode + instance_.theta * omega,
                 before[i].decode_s + decode,
                 before[i].omega + omega,
                 begin,
                 i,
                 rule};
      if (objective(next, limits, end) > limits.objective) continue;
      if (instance_.max_omega && next.omega + rest_[end].omega > *instance_.max_omega + 1e-6) {
        continue;
      }
      insert(labels[stage + 1][end], next, limits, end);
    }
  }
}

Candidate StageProgramme::trace(const Labels& labels, std::size_t label) const {
  Candidate plan;
  plan.order = setting_.order;
  plan.prefill_micro_batch_size = prefill_size_;
  plan.decode_micro_batch_size = decode_size_;
  plan.bit.resize(instance_.num_layers());
  plan.first_layer.assign(setting_.order.size() + 1, 0);
  std::size_t end = instance_.num_layers();
  for (std::size_t stage = setting_.order.size(); stage-- > 0;) {
    const Label& at = labels[stage + 1][end][label];
    for (std::size_t i = at.begin; i < end; ++i) plan.bit[i] = bit_of(stage, at.rule, i);
    plan.first_layer[stage + 1] = end;
    end = at.begin;
    label = at.before;
  }
  return plan;
}

std::vector<Candidate> StageProgramme::solve(double max_prefill_s, double max_decode_s,
                                             double max_objective) const {
  Limits limits{std::max(max_prefill_s, slowest_prefill_link_s_),
                std::max(max_decode_s, slowest_decode_link_s_), max_objective, 0};
  limits.fixed =
      coefficients_.prefill_max * limits.prefill_s + coefficients_.decode_max * limits.decode_s;
  const std::size_t stages = setting_.order.size(), layers = instance_.num_layers();
  Labels labels(stages + 1, std::vector<std::vector<Label>>(layers + 1));
  labels[0][0].emplace_back();
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const bool last = stage + 1 == stages;
    for (std::size_t begin = 0; begin < layers; ++begin) {
      if (labels[stage][begin].empty()) continue;
      for (std::size_t end = last ? layers : begin + 1; end <= layers; ++end) {
        extend(labels, stage, begin, end, limits);
      }
    }
  }
  std::vector<std::size_t> found(labels[stages][layers].size());
  for (std::size_t i = 0; i < found.size(); ++i) found[i] = i;
  std::stable_sort(found.begin(), found.end(), [&](std::size_t a, std::size_t b) {
    return labels[stages][layers][a].loaded < labels[stages][layers][b].loaded;
  });
  std::vector<Candidate> plans;
  for (std::size_t i = 0; i < std::min(kMostAnswers, found.size()); ++i) {
    plans.push_back(trace(labels, found[i]));
  }
  return plans;
}

}  // namespace tessera::solver::replan_detail
