// Bounds by the programme, placements by packing what it counts: first the nodes of a class
// together, which is small; where its counts do not fit node by node, with the patterns that do;
// where nodes have to be told apart (reserve, spreading), each by itself while that is small.

#include "search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "decomposition.h"
#include "restriction.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/solver/fleet/check.h"
#include "tessera/solver/fleet/master.h"
#include "tessera/solver/mip/cbc.h"

namespace tessera::solver {
namespace {

constexpr double kProven = 1e-6;
constexpr std::size_t kMostPatterns = 2000;  ///< of a class
constexpr std::size_t kMostByNode = 12'000;  ///< columns of a programme of single nodes
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

}  // namespace

FleetSearch::FleetSearch(const FleetInstance& instance, const FleetOptions& options,
                         SearchClock& clock)
    : instance_(instance), options_(options), clock_(clock), space_(instance) {}

double FleetSearch::gap() const {
  if (!objective_ || !bound_) return kInfinity;
  const double off = std::abs(*objective_ - *bound_);
  return off <= 1e-12 ? 0 : off / std::max(std::abs(*objective_), 1e-12);
}

bool FleetSearch::is_good_enough() const {
  const bool is_enough = objective_ && options_.enough && !is_better(*options_.enough, *objective_);
  return is_enough || gap() <= std::max(options_.gap, kProven);
}

bool FleetSearch::offer(const FleetPlacement& placement, const char* found_by) {
  const FleetCheck check = check_fleet(instance_, placement);
  if (!check.violations.empty()) return false;
  if (objective_ && !is_better(check.objective, *objective_)) return true;
  objective_ = check.objective;
  best_ = placement;
  if (options_.on_incumbent) {
    options_.on_incumbent({check.objective, bound_, clock_.elapsed_s(), found_by}, placement);
  }
  return true;
}

bool FleetSearch::offer_counts(const FleetProgramme& programme, const FleetCounts& counts,
                               const char* found_by) {
  Spreading spreading;
  auto packed = pack(space_, programme.units(), counts, spreading);
  if (!packed && !space_.running.empty()) {
    spreading.keeps = false;
    packed = pack(space_, programme.units(), counts, spreading);
  }
  if (packed && offer(*packed, found_by)) return true;
  if (instance_.reserve_nodes == 0 || !packed) return false;
  // Spread: no more of a model on a node than its replicas leave to lose.
  spreading.most_on_node.assign(space_.wanted.size(), 0);
  for (std::size_t m = 0; m < space_.wanted.size(); ++m) {
    double total = 0;
    for (const std::size_t k : space_.of_model[m]) {
      const double rate = space_.kinds[k].rate.empty() ? 0 : space_.kinds[k].rate.front();
      for (const std::int64_t n : counts.on_unit[k]) total += static_cast<double>(n) * rate;
      for (const std::int64_t n : counts.in_class[k]) total += static_cast<double>(n) * rate;
    }
    const double lost = maximises() ? total * 0.1 : total - 1;
    spreading.most_on_node[m] = std::max(0.0, lost / static_cast<double>(instance_.reserve_nodes));
  }
  const auto spread = pack(space_, programme.units(), counts, spreading);
  return spread && offer(*spread, found_by);
}

void FleetSearch::raise_bound(double bound) {
  if (!std::isfinite(bound)) return;
  if (!bound_ || is_better(*bound_, bound)) bound_ = bound;
}

double FleetSearch::rounded_bound(const FleetProgramme& programme, double bound) const {
  const double step = programme.step();
  if (maximises() || step <= 0) return bound;
  // Less what the linear programmes' own rounding may have added.
  return std::ceil(bound / step * (1 - 1e-7) - 1e-6) * step;
}

bool FleetSearch::solve_relaxation(const FleetProgramme& programme) {
  LpSolver lp(programme.model(), [this] { return clock_.should_stop(); });
  // Bounds of columns that a row of devices says as well would take its price.
  for (const FleetProgramme::Decision& d : programme.decisions()) {
    if (!space_.fills(space_.kinds[d.kind], d.node_class)) continue;
    lp.set_bounds(d.column, 0, programme.model().columns[d.column].high + 1);
  }
  const LpSolver::Solution solution = lp.minimise();
  if (solution.outcome == LpSolver::Outcome::infeasible) proven_infeasible_ = true;
  if (solution.outcome != LpSolver::Outcome::optimal) return false;
  const double value = maximises() ? -solution.objective : solution.objective;
  raise_bound(rounded_bound(programme, programme.objective(value)));
  relaxed_ = lp.values();
  column_prices_ = lp.column_prices();
  relaxed_value_ = solution.objective;
  row_prices_ = lp.row_prices();
  read_prices(programme, row_prices_);
  return true;
}

void FleetSearch::read_prices(const FleetProgramme& programme,
                              const std::vector<double>& row_prices) {
  prices_.device_prices.clear();
  prices_.model_prices.clear();
  for (const FleetDevice& type : instance_.device_types) {
    prices_.device_prices.push_back({type.name, 0, {}});
  }
  for (const auto& row : programme.capacity_rows()) {
    const AlikeNodes& nodes = space_.classes[row.node_class];
    for (std::size_t t = 0; t < nodes.devices.size(); ++t) {
      if (nodes.devices[t] == 0 || (row.type && *row.type != t)) continue;
      double worth = programme.objective(-row_prices[row.row]);
      if (!row.type) worth /= static_cast<double>(nodes.num_devices);
      DualPrice& price = prices_.device_prices[t];
      if (worth > price.value) price = {price.name, worth, nodes.name};
    }
  }
  for (std::size_t m = 0; m < instance_.models.size(); ++m) {
    double demand = 0, worth = 0;
    for (const double d : instance_.models[m].demand) demand += d;
    for (const std::size_t row : programme.demand_rows()[m]) worth += row_prices[row];
    // Of objective rate a larger demand lowers x by its share.
    const double scale = maximises() ? -bound_.value_or(0) : programme.objective(1);
    prices_.model_prices.push_back(
        {instance_.models[m].name, demand > 0 ? worth * scale / demand : 0, {}});
  }
}

// What the linear programme has of each replica, rounded up: it serves enough, where it fits.
void FleetSearch::round_up(const FleetProgramme& programme) {
  std::vector<double> up = relaxed_;
  for (double& value : up) value = std::ceil(value - 1e-7);
  offer_counts(programme, programme.counts(up), "rounding");
  if (options_.round) round_by_rule(programme);
}

FleetSearch::Part FleetSearch::solve_part(const FleetProgramme& programme,
                                          const std::vector<double>& settled,
                                          const Effort& effort) {
  const Restriction part(programme.model(), settled);
  if (!part.possible()) return {true};
  MipLimits limits;
  limits.time_limit_s = std::max(0.01, effort.until_s - clock_.elapsed_s());
  limits.relative_gap =
      std::max(kProven / 2, effort.is_whole ? 0.99 * options_.gap : std::min(options_.gap, 1e-4));
  limits.least_improvement = programme.value(programme.step()) / 2;
  limits.max_nodes = effort.max_nodes;
  if (effort.start != nullptr) {
    limits.start = part.restrict(programme.encode(*effort.start));
  } else if (objective_) {
    if (const auto counts = counts_of(space_, programme.units(), best_)) {
      limits.start = part.restrict(programme.encode(*counts));
    }
    limits.cutoff = value_of(programme, *objective_) + 1e-7;
  }
  bool enough = false;
  limits.should_stop = [&] {
    enough = enough || is_good_enough();
    return enough || clock_.should_stop() || clock_.elapsed_s() > effort.until_s;
  };
  const auto bound_of = [&](double value) {
    return rounded_bound(programme, programme.objective(maximises() ? -value : value));
  };
  limits.on_solution = [&](const std::vector<double>& x, double bound) {
    if (effort.is_whole) raise_bound(bound_of(bound));
    offer_counts(programme, programme.counts(part.expand(x)), effort.name);
  };
  LinearModel model = part.model();
  if (effort.least != nullptr) {
    const std::vector<double> least = part.restrict(*effort.least);
    for (std::size_t c = 0; c < least.size(); ++c) {
      LinearModel::Column& column = model.columns[c];
      column.low = std::min(std::max(column.low, least[c]), column.high);
    }
  }
  const MipResult result = solve_mip(model, limits);
  if (effort.is_whole) {
    raise_bound(bound_of(result.bound));
    if (result.finished && !result.x && !objective_) proven_infeasible_ = true;
  }
  Part answer{result.finished};
  if (result.x) {
    FleetCounts counts = programme.counts(part.expand(*result.x));
    answer.value = result.objective;
    if (offer_counts(programme, counts, effort.name)) {
      answer.counts = std::move(counts);
      // Replicas that only the sum of nodes leaves where they are.
      const double promised = programme.objective(result.objective);
      const bool is_worse = *objective_ > promised + 1e-6 * std::max(1.0, std::abs(promised));
      if (!space_.running.empty() && is_worse) unpacked_ = true;
    } else {
      unpacked_ = true;
    }
  }
  return answer;
}

double FleetSearch::value_of(const FleetProgramme& programme, double objective) const {
  const double value = programme.value(objective);
  return maximises() ? -value : value;
}

// Columns that the linear programme leaves out, and that make any solution worse by so much.
std::vector<double> FleetSearch::settled_by_price(const FleetProgramme& programme,
                                                  double worse_by) const {
  std::vector<double> settled(programme.model().columns.size(), kUnknown);
  if (relaxed_.size() != settled.size()) return settled;
  for (const FleetProgramme::Decision& d : programme.decisions()) {
    if (relaxed_[d.column] < 1e-9 && column_prices_[d.column] > worse_by) settled[d.column] = 0;
  }
  return settled;
}

// The columns that the linear programme takes, or would take next.
void FleetSearch::solve_core(const FleetProgramme& programme, double until_s) {
  constexpr std::size_t kNext = 60;
  constexpr std::int64_t kNodes = 200;
  std::vector<double> prices;
  for (const FleetProgramme::Decision& d : programme.decisions()) {
    if (relaxed_[d.column] < 1e-9) prices.push_back(column_prices_[d.column]);
  }
  if (prices.size() <= kNext) return;
  std::nth_element(prices.begin(), prices.begin() + kNext, prices.end());
  solve_part(programme, settled_by_price(programme, prices[kNext]),
             {until_s, kNodes, false, "core"});
}

bool FleetSearch::solve_programme(const FleetProgramme& programme, double share_of_time,
                                  bool again) {
  const double now_s = clock_.elapsed_s();
  const double until_s = now_s + clock_.left_s() * share_of_time;
  if (relaxed_.size() == programme.model().columns.size()) {
    // Cuts at the root give most of the bound, for those who have not seen it.
    if (!again) {
      solve_part(programme, settled_by_price(programme, kInfinity),
                 {now_s + (until_s - now_s) * 0.3, 1, true, "root"});
    }
    if (!again && !is_good_enough()) solve_core(programme, now_s + (until_s - now_s) * 0.4);
    const double improve_until_s = now_s + (until_s - now_s) * 0.85;
    if (maximises() && bound_ && *bound_ > 0) {
      ProgrammeOptions options = programme.options();
      options.worthwhile = *bound_;
      improve(FleetProgramme(space_, std::move(options)), improve_until_s);
    } else if (!is_good_enough()) {
      improve(programme, improve_until_s);
    }
  }
  if (is_good_enough()) return true;
  if (clock_.should_stop()) return false;
  const double worse_by =
      objective_ ? value_of(programme, *objective_) - relaxed_value_ + 1e-6 : kInfinity;
  return solve_part(programme, settled_by_price(programme, worse_by),
                    {until_s, {}, true, "programme"})
      .finished;
}

// With all nodes of a class together, whose programmes by model are small.
void FleetSearch::bound_by_models(double until_s) {
  const FleetProgramme together(space_, {});
  if (!solve_relaxation(together)) return;
  const auto counts = counts_of(space_, together.units(), best_);
  if (!counts) return;
  Decomposition::Limits limits;
  limits.time_limit_s = until_s - clock_.elapsed_s();
  limits.should_stop = [this] { return is_good_enough() || clock_.should_stop(); };
  limits.on_bound = [&](double bound) {
    raise_bound(rounded_bound(together, together.objective(bound)));
  };
  Decomposition(together.model(), together.decisions())
      .run(together.encode(*counts), row_prices_, limits);
}

std::size_t FleetSearch::size_by_node() const {
  std::size_t size = 0;
  for (const Kind& kind : space_.kinds) {
    for (const std::size_t c : kind.classes) {
      size += static_cast<std::size_t>(space_.classes[c].count);
      if (size > kMostByNode) return size;
    }
  }
  return size;
}

ProgrammeOptions FleetSearch::by_node() const {
  ProgrammeOptions options;
  options.by_node.assign(space_.classes.size(), 1);
  return options;
}

std::optional<ProgrammeOptions> FleetSearch::with_patterns() const {
  ProgrammeOptions options;
  options.by_node.assign(space_.classes.size(), 0);
  for (std::size_t c = 0; c < space_.classes.size(); ++c) {
    options.patterns.push_back(patterns_of(space_, c, kMostPatterns));
    if (!options.patterns.back()) return std::nullopt;
  }
  return options;
}

bool FleetSearch::needs_nodes() const {
  return instance_.reserve_nodes > 0 ||
         std::any_of(instance_.constraints.begin(), instance_.constraints.end(),
                     [](const FleetConstraint& rule) { return rule.min_nodes || rule.not_beside; });
}

FleetAnswer FleetSearch::answer(FleetStatus status) {
  FleetAnswer answer;
  answer.status = status;
  answer.objective = objective_;
  answer.bound = bound_;
  answer.solve_s = clock_.elapsed_s();
  answer.device_prices = prices_.device_prices;
  answer.model_prices = prices_.model_prices;
  answer.notes = notes();
  if (objective_) {
    if (bound_) answer.gap = gap();
    const FleetCheck check = check_fleet(instance_, best_);
    answer.usd_per_h = check.usd_per_h;
    answer.gpus = check.gpus;
    answer.placement = best_;
  }
  return answer;
}

FleetAnswer FleetSearch::run(const FleetPlacement& start) {
  offer(start, "start");
  if (!start.empty()) offer({}, "nothing");
  if (!maximises() && !space_.unservable.empty()) proven_infeasible_ = true;
  const bool small = size_by_node() <= kMostByNode;
  bool finished = is_good_enough();
  const auto is_over = [&] {
    return finished || proven_infeasible_ || is_good_enough() || clock_.should_stop();
  };
  const auto search = [&](ProgrammeOptions options, double share_of_time, bool again = false) {
    if (is_over()) return;
    const FleetProgramme programme(space_, std::move(options));
    if (solve_relaxation(programme)) round_up(programme);
    if (!is_over()) finished = solve_programme(programme, share_of_time, again) && !unpacked_;
  };
  if (!needs_nodes()) {
    search({}, 1);
    if (unpacked_ && !is_over()) {
      unpacked_ = false;
      if (auto patterns = with_patterns()) search(std::move(*patterns), 1);
    }
    if (small) search(by_node(), 1);
  } else {
    if (small) search(by_node(), 0.4);
    if (!small) search({}, 0.25);
    // The linear programme knows little of a reserve.
    if (!is_over() && !maximises() && objective_) {
      bound_by_models(clock_.elapsed_s() + clock_.left_s() * 0.5);
    }
    if (small) search(by_node(), 0.9, true);
    if (!is_over()) search({}, 1);
  }
  return answer(status());
}

FleetRelaxation FleetSearch::relaxed() {
  const FleetProgramme programme(space_, {});
  FleetRelaxation relaxation;
  relaxation.copies.assign(instance_.columns.size(), 0);
  relaxation.model_prices.assign(instance_.models.size(), 0);
  if (!solve_relaxation(programme)) return relaxation;
  relaxation.bound = bound_;
  for (const FleetProgramme::Decision& d : programme.decisions()) {
    relaxation.copies[space_.kinds[d.kind].column] += relaxed_[d.column];
  }
  for (std::size_t m = 0; m < instance_.models.size(); ++m) {
    relaxation.model_prices[m] = std::abs(prices_.model_prices[m].value);
  }
  return relaxation;
}

std::vector<std::string> FleetSearch::notes() const {
  std::vector<std::string> notes;
  const auto say = [&](std::size_t number, const char* what) {
    if (number > 0)
      notes.push_back(fmt::format("{} {} {}", number, number == 1 ? "column" : "columns", what));
  };
  say(space_.num_useless, "left out: no node has the devices, or no request is for it");
  say(space_.num_merged, "like another one");
  say(space_.num_dominated, "no better anywhere than another one");
  if (maximises()) {
    for (const std::size_t m : space_.unservable) {
      notes.push_back(
          fmt::format("no column that fits serves all requests of {}: nothing of the "
                      "demand can be served",
                      quote(instance_.models[m].name)));
    }
  }
  if (instance_.reserve_nodes > 1) {
    notes.push_back(fmt::format(
        "of each model the {} nodes that it misses most are lost at once: more than any {} nodes "
        "would take of all models",
        instance_.reserve_nodes, instance_.reserve_nodes));
  }
  return notes;
}

FleetStatus FleetSearch::status() {
  if (is_good_enough()) {
    return gap() <= kProven ? FleetStatus::optimal : FleetStatus::gap_reached;
  }
  if (clock_.interrupted()) return FleetStatus::interrupted;
  if (clock_.late()) return FleetStatus::time_limit;
  return !objective_ && proven_infeasible_ ? FleetStatus::infeasible : FleetStatus::stopped;
}

FleetMaster::FleetMaster(FleetInstance instance) : instance_(std::move(instance)) {
  check_instance(instance_, "fleet");
}

void FleetMaster::set_rates(std::size_t column, std::vector<double> rate) {
  FleetInstance& fleet = instance_;
  if (column >= fleet.columns.size() || rate.size() != fleet.columns[column].rate.size()) {
    refuse("fleet", "there is no column {} with {} rates", column, rate.size());
  }
  fleet.columns[column].rate = std::move(rate);
}

std::size_t FleetMaster::add_column(Column column) {
  instance_.columns.push_back(std::move(column));
  try {
    check_instance(instance_, "fleet");
  } catch (...) {
    instance_.columns.pop_back();
    throw;
  }
  return instance_.columns.size() - 1;
}

void FleetMaster::set_demand(std::size_t model, std::vector<double> demand) {
  if (model >= instance_.models.size() || demand.size() != instance_.models[model].demand.size()) {
    refuse("fleet", "there is no model {} with {} classes of requests", model, demand.size());
  }
  instance_.models[model].demand = std::move(demand);
}

FleetRelaxation FleetMaster::relaxed(const FleetOptions& options) const {
  SearchClock clock(options.time_limit_s, options.should_stop);
  return FleetSearch(instance_, options, clock).relaxed();
}

FleetAnswer FleetMaster::solve(const FleetOptions& options) {
  SearchClock clock(options.time_limit_s, options.should_stop);
  FleetSearch search(instance_, options, clock);
  FleetAnswer answer = search.run(options.start.empty() ? last_ : options.start);
  if (answer.status == FleetStatus::infeasible) answer.lack = explain_lack(instance_, clock);
  last_ = answer.placement;
  return answer;
}

}  // namespace tessera::solver
