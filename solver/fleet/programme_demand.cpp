// The rows of a fleet's programme that ask for the demand, with all nodes there and with some lost.

#include <algorithm>

#include "programme.h"

namespace tessera::solver {
namespace {

constexpr double kNegligible = 1e-12;  ///< coefficient beside a right side of 1

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

std::size_t FleetProgramme::used_binary(std::size_t column) {
  binary_of_.resize(lp_.columns.size() + 1);
  if (binary_of_[column]) return *binary_of_[column];
  const std::size_t binary = lp_.add_column(0, 1, 0, true);
  lp_.add_row(-kFree, 0, {{column, 1}, {binary, -std::min(1e7, lp_.columns[column].high)}});
  binary_of_[column] = binary;
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
      Terms copies{{whole_[w].column, 1}};
      const std::int64_t most = most_whole(whole_[w]);
      for (std::int64_t i = 1; i <= std::min(k_nodes, most); ++i) {
        const std::size_t there = lp_.add_column(0, 1, 0, true);
        lp_.add_row(-kFree, as_number(i - 1),
                    {{whole_[w].column, 1}, {there, -as_number(most - i + 1)}});
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

void FleetProgramme::add_classes(std::size_t m, bool reserve) {
  bool any = false;
  if (reserve) {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const bool runs =
          std::any_of(single_of_unit_[u].begin(), single_of_unit_[u].end(),
                      [&](std::size_t s) { return space_.kinds[single_[s].kind].model == m; });
      if (runs) add_scenario(m, u, {});
      any = any || runs;
    }
    for (std::size_t w = 0; w < whole_.size(); ++w) {
      if (space_.kinds[whole_[w].kind].model != m) continue;
      add_scenario(m, {}, w);
      any = true;
    }
  }
  if (!any) add_scenario(m, {}, {});
}

// The shares of the time of each kind of replica for each class of requests, when a node of a unit
// is lost (the mean over its nodes), or a replica over whole nodes.
void FleetProgramme::add_scenario(std::size_t m, std::optional<std::size_t> unit,
                                  std::optional<std::size_t> whole) {
  const std::size_t classes = space_.wanted[m].size();
  std::vector<Terms> served(classes);
  for (const std::size_t k : space_.of_model[m]) {
    Terms time = total_of(k, -1);
    if (unit && !options_.more_nodes) {
      for (auto& [column, factor] : time) {
        for (const std::size_t s : single_of_kind_[k]) {
          if (single_[s].column == column && single_[s].unit == *unit) {
            factor += 1 / as_number(std::max<std::int64_t>(1, units_[*unit].count));
          }
        }
      }
    }
    if (whole && whole_[*whole].kind == k) {
      time.emplace_back(used_binary(whole_[*whole].column), 1);
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
