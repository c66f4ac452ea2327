// The rows of a fleet's programme that ask for the demand, with all nodes there and with some lost.

#include <algorithm>

#include "losses.h"
#include "programme.h"

namespace tessera::solver {
namespace {

constexpr double kNegligible = 1e-12;  ///< coefficient beside a right side of 1
/// Ways to lose nodes that a model with several classes of requests is asked about one by one.
constexpr std::int64_t kMostScenarios = 300;

}  // namespace

double FleetProgramme::rate(std::size_t kind, std::size_t b) const {
  return space_.kinds[kind].rate[b] / most_;
}

// A crude bound on x, which is what the programme counts it in.
void FleetProgramme::add_demands() {
  const bool any_reserve = options_.with_reserve && space_.instance->reserve_nodes > 0;
  if (multiple_) {
    most_ = kFree;
    for (std::size_t m = 0; m < space_.wanted.size(); ++m) {
      for (std::size_t b = 0; b < space_.wanted[m].size(); ++b) {
        std::vector<double> of_node(space_.classes.size(), 0);
        for (const std::size_t k : space_.of_model[m]) {
          const Kind& kind = space_.kinds[k];
          for (const std::size_t c : kind.classes) {
            const double nodes = kind.is_whole() ? as_number(kind.nodes)
                                                 : as_number(kind.num_devices) /
                                                       as_number(space_.classes[c].num_devices);
            of_node[c] = std::max(of_node[c], kind.rate[b] / nodes);
          }
        }
        double total = 0;
        for (std::size_t c = 0; c < of_node.size(); ++c) {
          total += of_node[c] * as_number(space_.classes[c].count);
        }
        most_ = std::min(most_, total);
      }
    }
    if (!(most_ > 0)) {
      most_ = 1;
      lp_.columns[*multiple_].high = 0;
    }
    scale_ = most_;
  }
  for (std::size_t m = 0; m < space_.wanted.size(); ++m) {
    if (space_.wanted[m].empty()) continue;
    if (space_.wanted[m].size() == 1) {
      add_one_class(m, any_reserve);
    } else {
      add_classes(m, any_reserve);
    }
  }
}

FleetProgramme::Terms FleetProgramme::total_of(std::size_t kind, double factor) const {
  Terms terms;
  for (const std::size_t s : single_of_kind_[kind]) terms.emplace_back(single_[s].column, factor);
  for (const std::size_t w : whole_of_kind_[kind]) terms.emplace_back(whole_[w].column, factor);
  return terms;
}

// What one replica more than serves counts as all of it: with it, or with those left when a node is
// lost, the row holds either way.
FleetProgramme::Terms FleetProgramme::demand_terms(std::size_t model) const {
  Terms terms;
  for (const std::size_t k : space_.of_model[model]) {
    const double a = std::min(1.0, rate(k));
    if (a < kNegligible) continue;
    const Terms more = total_of(k, a);
    terms.insert(terms.end(), more.begin(), more.end());
  }
  return terms;
}

void FleetProgramme::add_one_class(std::size_t m, bool reserve) {
  Terms terms = demand_terms(m);
  if (reserve) {
    const std::size_t loss = lp_.add_column(0, kFree);
    if (space_.instance->reserve_nodes == 1) {
      add_loss(m, loss);
    } else {
      add_worst_losses(m, loss);
    }
    terms.emplace_back(loss, -1);
  }
  if (multiple_ && options_.worthwhile) {
    const double weight = 1 / as_number(static_cast<std::int64_t>(space_.wanted.size()));
    Terms counted = terms;
    counted.emplace_back(lp_.add_column(0, *options_.worthwhile / most_, -weight), -1);
    lp_.add_row(0, kFree, std::move(counted));
  }
  if (multiple_) terms.emplace_back(*multiple_, -1);
  demand_rows_[m].push_back(lp_.add_row(multiple_ ? 0 : 1 - kGranted / 2, kFree, std::move(terms)));
}

std::size_t FleetProgramme::binary_of_at_least(std::size_t column, std::int64_t count) {
  const auto known = at_least_.find({column, count});
  if (known != at_least_.end()) return known->second;
  const double below = as_number(count - 1);
  const double more = std::max(0.0, std::min(1e7, lp_.columns[column].high) - below);
  const std::size_t binary = lp_.add_column(0, 1, 0, true);
  lp_.add_row(-kFree, below, {{column, 1}, {binary, -more}});
  at_least_[{column, count}] = binary;
  return binary;
}

void FleetProgramme::add_loss(std::size_t m, std::size_t loss) {
  std::vector<Terms> of_unit(units_.size());
  for (const std::size_t k : space_.of_model[m]) {
    const double a = std::min(1.0, rate(k));
    if (a < kNegligible) continue;
    for (const std::size_t s : single_of_kind_[k]) {
      const std::int64_t count = units_[single_[s].unit].count;
      of_unit[single_[s].unit].emplace_back(single_[s].column, -a);
      if (count > 1) lp_.add_row(0, kFree, {{loss, 1}, {used_binary(single_[s].column), -a}});
    }
    for (const std::size_t w : whole_of_kind_[k]) {
      lp_.add_row(0, kFree, {{loss, 1}, {used_binary(whole_[w].column), -a}});
    }
  }
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (of_unit[u].empty() || options_.more_nodes) continue;
    of_unit[u].emplace_back(loss, as_number(units_[u].count));
    lp_.add_row(0, kFree, std::move(of_unit[u]));
  }
}

// The sum of the k largest is the least of k t + sum max(0, loss - t) over t.
void FleetProgramme::add_worst_losses(std::size_t m, std::size_t loss) {
  const std::int64_t k_nodes = space_.instance->reserve_nodes;
  const std::size_t threshold = lp_.add_column(0, kFree);
  Terms sum{{loss, 1}, {threshold, -as_number(k_nodes)}};
  std::vector<Terms> of_unit(units_.size());
  for (const std::size_t k : space_.of_model[m]) {
    const double a = std::min(1.0, rate(k));
    if (a < kNegligible) continue;
    for (const std::size_t s : single_of_kind_[k]) {
      of_unit[single_[s].unit].emplace_back(single_[s].column, -a);
    }
    for (const std::size_t w : whole_of_kind_[k]) {
      // Replicas 1, 2, ... of the kind, as far as they are there.
      for (std::int64_t i = 1; i <= std::min(k_nodes, most_whole(whole_[w])); ++i) {
        const std::size_t there = binary_of_at_least(whole_[w].column, i);
        const std::size_t above = lp_.add_column(0, kFree);
        lp_.add_row(0, kFree, {{above, 1}, {threshold, 1}, {there, -a}});
        sum.emplace_back(above, -1);
      }
    }
  }
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (of_unit[u].empty()) continue;
    const double count = as_number(std::max<std::int64_t>(1, units_[u].count));
    const std::size_t above = lp_.add_column(0, kFree);  // of each of its nodes, the mean
    of_unit[u].emplace_back(above, count);
    of_unit[u].emplace_back(threshold, count);
    lp_.add_row(0, kFree, std::move(of_unit[u]));
    sum.emplace_back(above, -count);
  }
  lp_.add_row(0, kFree, std::move(sum));
}

std::vector<FleetProgramme::Loser> FleetProgramme::losers(std::size_t m) const {
  const auto is_of_model = [&](std::size_t s) { return space_.kinds[single_[s].kind].model == m; };
  std::vector<Loser> losers;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const auto& single = single_of_unit_[u];
    if (std::any_of(single.begin(), single.end(), is_of_model)) {
      losers.push_back({u, {}, std::max<std::int64_t>(1, units_[u].count)});
    }
  }
  for (std::size_t w = 0; w < whole_.size(); ++w) {
    if (space_.kinds[whole_[w].kind].model != m) continue;
    losers.push_back({{}, w, std::max<std::int64_t>(1, most_whole(whole_[w]))});
  }
  return losers;
}

// Each way to lose the reserve's nodes has shares of its own. Where there are too many ways, all of
// them of one kind stand for them: the programme asks for less then, and placements are checked.
void FleetProgramme::add_classes(std::size_t m, bool reserve) {
  if (!reserve) return add_scenario(m, {}, {});
  const std::vector<Loser> may_be_lost = losers(m);
  std::vector<std::int64_t> most;
  for (const Loser& each : may_be_lost) most.push_back(each.most);
  const std::int64_t nodes = space_.instance->reserve_nodes;
  if (num_losses(most, nodes, kMostScenarios) > kMostScenarios) {
    for (std::size_t i = 0; i < most.size(); ++i) {
      std::vector<std::int64_t> lost(most.size(), 0);
      lost[i] = std::min(nodes, most[i]);
      add_scenario(m, may_be_lost, lost);
    }
    return;
  }
  for_each_loss(most, nodes,
                [&](const std::vector<std::int64_t>& lost) { add_scenario(m, may_be_lost, lost); });
}

// The shares of the time of each kind of replica for each class of requests, when some of each
// loser are lost: of the nodes of a unit the mean of what they have.
void FleetProgramme::add_scenario(std::size_t m, const std::vector<Loser>& losers,
                                  const std::vector<std::int64_t>& lost) {
  const std::size_t classes = space_.wanted[m].size();
  std::vector<double> lost_of_unit(units_.size(), 0);
  std::vector<std::int64_t> lost_of_whole(whole_.size(), 0);
  for (std::size_t i = 0; i < losers.size(); ++i) {
    const Loser& loser = losers[i];
    if (loser.whole) lost_of_whole[*loser.whole] = lost[i];
    if (loser.unit && !options_.more_nodes) {
      lost_of_unit[*loser.unit] = as_number(lost[i]) / as_number(loser.most);
    }
  }
  std::vector<Terms> served(classes);
  for (const std::size_t k : space_.of_model[m]) {
    Terms time;
    for (const std::size_t s : single_of_kind_[k]) {
      time.emplace_back(single_[s].column, lost_of_unit[single_[s].unit] - 1);
    }
    for (const std::size_t w : whole_of_kind_[k]) {
      time.emplace_back(whole_[w].column, -1);
      for (std::int64_t i = 1; i <= lost_of_whole[w]; ++i) {
        time.emplace_back(binary_of_at_least(whole_[w].column, i), 1);
      }
    }
    for (std::size_t b = 0; b < classes; ++b) {
      if (rate(k, b) < kNegligible) continue;
      const std::size_t share = lp_.add_column(0, kFree);
      time.emplace_back(share, 1);
      served[b].emplace_back(share, rate(k, b));
    }
    lp_.add_row(-kFree, 0, std::move(time));
  }
  for (std::size_t b = 0; b < classes; ++b) {
    if (multiple_) served[b].emplace_back(*multiple_, -1);
    demand_rows_[m].push_back(
        lp_.add_row(multiple_ ? 0 : 1 - kGranted / 2, kFree, std::move(served[b])));
  }
}

}  // namespace tessera::solver
