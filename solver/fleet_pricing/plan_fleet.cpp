#include "tessera/solver/fleet_pricing/plan_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "fleet_instance.h"
#include "tessera/core/error.h"
#include "tessera/solver/fleet/check.h"
#include "tessera/solver/fleet/master.h"
#include "tessera/solver/fleet_pricing/repair.h"

namespace tessera::solver {
namespace {

// What the search of a placement among what is known may still take once the time is up.
constexpr double kLastWord_s = 0.4;
// Of the time that is left, what a round of the master may take, and one that nothing new may come
// after.
constexpr double kShareOfRound = 0.1, kShareOfLast = 0.9;

// Of the gap that is asked for, what linear programmes of what is known and of what may be may
// differ by; placements are of whole replicas, which needs the rest.
constexpr double kShareOfGap = 0.5;

/// Ends what is under way in a search of configurations, whatever that catches.
struct Stopped {};

class Clock {
 public:
  Clock(double limit_s, std::function<bool()> should_stop)
      : limit_s_(limit_s), should_stop_(std::move(should_stop)) {}

  double elapsed_s() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  double left_s() const { return std::max(0.0, limit_s_ - elapsed_s()); }
  /// Whether somebody wants it to end.
  bool is_interrupted() {
    interrupted_ = interrupted_ || (should_stop_ && should_stop_());
    return interrupted_;
  }
  /// @throws Stopped
  void poll() {
    if (is_interrupted() || left_s() <= 0) throw Stopped{};
  }
  FleetStatus status() const {
    return interrupted_ ? FleetStatus::interrupted : FleetStatus::time_limit;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double limit_s_;
  std::function<bool()> should_stop_;
  bool interrupted_ = false;
};

/// Master and simulation in turn: first without the reserve, which is a relaxation and soon solved,
/// so that most of what the fleet will be made of is known before the hard programme begins.
class LazyPricing {
 public:
  LazyPricing(const FleetRequest& request, FleetColumns& columns, Clock& clock,
              FleetPricing& pricing, FleetPlacement start = {})
      : request_(request),
        columns_(columns),
        clock_(clock),
        pricing_(pricing),
        start_(std::move(start)),
        master_(instance_of(request, columns, num_leaving_)) {}

  FleetAnswer run() {
    try {
      if (request_.simulate_all) simulate_all();
      choose_start();
      if (request_.reserve_nodes > 0 && start_.empty()) {
        FleetInstance relaxed = master_.instance();
        relaxed.reserve_nodes = 0;
        FleetMaster master(std::move(relaxed)), known(of_known(master.instance()));
        relaxed_ = &master;
        known_ = &known;
        explore(master, known);
        is_explored_ = true;
        relaxed_ = nullptr;
      }
      const std::optional<FleetPlacement> least = least_moved();
      FleetAnswer answer = rounds(master_);
      if (least) prefer(*least, answer);
      return answer;
    } catch (const Stopped&) {
      return last_word();
    }
  }

  const FleetInstance& instance() const { return master_.instance(); }
  std::int64_t num_leaving() const { return num_leaving_; }

 private:
  /// What there is to start from: what it was planned again from, or what runs around it; the best
  /// of what still does, else the first, which is there to be repaired.
  void choose_start() {
    std::vector<FleetPlacement> choices = master_.instance().around;
    choices.insert(choices.begin(), start_);
    std::erase_if(choices, [](const FleetPlacement& each) { return each.empty(); });
    if (choices.empty()) return;
    start_ = choices.front();
    std::optional<double> best;
    for (const FleetPlacement& each : choices) {
      simulate_used(each);
      const FleetCheck check = check_fleet(master_.instance(), each);
      const bool is_rate = request_.objective == FleetObjective::rate;
      const bool is_better = !best || (is_rate ? check.objective > *best : check.objective < *best);
      if (!check.violations.empty() || !is_better) continue;
      best = check.objective;
      start_ = each;
    }
    last_known_ = start_;
  }

  /// Of a fleet that runs: what serves the demand and moves nothing of it, to start from.
  std::optional<FleetPlacement> least_moved() {
    if (start_.empty()) return std::nullopt;
    auto found =
        repaired(of_known(master_.instance()), start_, options_of(clock_.left_s() * kShareOfRound));
    if (found) start_ = *found;
    return found;
  }

  /// What moves least where it is as good as was asked for.
  void prefer(const FleetPlacement& least, FleetAnswer& answer) {
    const FleetCheck check = check_fleet(master_.instance(), least);
    FleetAnswer own = answer;
    own.placement = least;
    own.objective = check.objective;
    own.usd_per_h = check.usd_per_h;
    own.gpus = check.gpus;
    judge(own);
    if (!answer.objective || !own.gap || !check.violations.empty()) return;
    if (*own.gap <= request_.gap || own.objective <= answer.objective) answer = std::move(own);
  }

  FleetOptions options_of(double time_limit_s) {
    FleetOptions options;
    options.gap = request_.gap;
    options.time_limit_s = time_limit_s;
    options.threads = request_.threads;
    options.seed = request_.seed;
    options.should_stop = [this] { return clock_.is_interrupted(); };
    return options;
  }

  /// Until a placement uses nothing that is not known, and is as good as was asked for or no time
  /// is left. @throws Stopped
  FleetAnswer rounds(FleetMaster& master) {
    FleetMaster known(of_known(master.instance()));
    known_ = &known;
    FleetAnswer answer = rounds(master, known);
    known_ = nullptr;
    return answer;
  }

  /// Simulates what the linear programme is made of, what most money depends on first, until all
  /// of it is known, or what is known does as well to within a share of the gap. @throws Stopped
  void explore(FleetMaster& master, const FleetMaster& known) {
    while (true) {
      const FleetRelaxation all = master.relaxed(options_of(clock_.left_s()));
      if (!all.bound) return;
      raise_bound(*all.bound);
      const FleetRelaxation sure = known.relaxed(options_of(clock_.left_s()));
      if (sure.bound && apart(*sure.bound, *all.bound) <= kShareOfGap * request_.gap) return;
      std::optional<std::size_t> first;
      double most = 0;
      for (std::size_t c = 0; c < all.copies.size(); ++c) {
        const FleetColumn& column = columns_.columns()[c];
        const FleetEngine& engine = columns_.engine_of(column);
        const double value =
            all.copies[c] * worth_of(column.model, engine) * all.model_prices[column.model];
        if (engine.is_known || value <= most) continue;
        first = c;
        most = value;
      }
      if (!first) return;
      ++pricing_.rounds;
      simulate(*first);
    }
  }

  /// Requests/s of the model's classes as they come, of what the engine serves at most: it may
  /// serve some of them only.
  double worth_of(std::size_t model, const FleetEngine& engine) const {
    const std::vector<double>& demand = master_.instance().models[model].demand;
    const double all = std::accumulate(demand.begin(), demand.end(), 0.0);
    const std::vector<double> most = engine.most_per_s();
    double best = 0;
    for (std::size_t b = 0; b < most.size(); ++b) {
      if (demand[b] > 0) best = std::max(best, most[b] / demand[b]);
    }
    return best * all;
  }

  bool is_rate() const { return request_.objective == FleetObjective::rate; }

  /// The best of what is known, where it is as good as was asked for.
  std::optional<FleetAnswer> good_enough() {
    if (!sure_) return std::nullopt;
    FleetAnswer answer = *sure_;
    answer.bound.reset();
    judge(answer);
    if (!answer.gap || *answer.gap > request_.gap) return std::nullopt;
    answer.status = FleetStatus::gap_reached;
    return answer;
  }

  /// The same after another look at what is known.
  std::optional<FleetAnswer> good_enough(FleetMaster& known, double time_limit_s) {
    if (!bound_) return std::nullopt;
    FleetOptions options = options_of(time_limit_s);
    options.enough =
        is_rate() ? *bound_ / (1 + request_.gap) : *bound_ / std::max(1e-9, 1 - request_.gap);
    FleetAnswer found = solve(known, std::move(options));
    if (found.objective && (!sure_ || is_better(*found.objective, *sure_->objective))) {
      sure_ = std::move(found);
    }
    return good_enough();
  }

  FleetAnswer rounds(FleetMaster& master, FleetMaster& known) {
    if (!is_explored_) explore(master, known);
    if (request_.gap > 0) {
      if (auto sure = good_enough(known, clock_.left_s() * kShareOfRound)) return *std::move(sure);
    }
    double share = kShareOfRound;
    while (true) {
      ++pricing_.rounds;
      const double before_s = clock_.elapsed_s();
      FleetAnswer answer = solve(master, options_of(clock_.left_s() * share));
      const double took_s = clock_.elapsed_s() - before_s;
      judge(answer);
      if (answer.status == FleetStatus::interrupted) throw Stopped{};
      if (answer.placement.empty()) {
        if (answer.status != FleetStatus::time_limit) return answer;
        if (share >= kShareOfLast) throw Stopped{};
        share = kShareOfLast;
        continue;
      }
      if (request_.on_incumbent) {
        request_.on_incumbent({*answer.objective, bound_, clock_.elapsed_s(), "master"});
      }
      // With the bound that this gave, or with what it uses, what is known may do.
      if (auto sure = good_enough()) return *std::move(sure);
      if (simulate_used(answer.placement)) {
        const double limit_s = std::min(clock_.left_s() * kShareOfRound, took_s + 0.1);
        if (auto sure = good_enough(known, limit_s)) return *std::move(sure);
        continue;
      }
      const bool is_done = answer.gap && *answer.gap <= request_.gap;
      if (is_done || answer.status != FleetStatus::time_limit || share >= kShareOfLast) {
        return answer;
      }
      share = kShareOfLast;
    }
  }

  FleetAnswer solve(FleetMaster& master, FleetOptions options) {
    const double before_s = clock_.elapsed_s();
    if (request_.round) {
      options.round = [&](const std::vector<double>& copies) {
        return request_.round(copies, master.instance());
      };
    }
    options.start = std::exchange(start_, {});
    FleetAnswer answer = master.solve(options);
    pricing_.master_s += clock_.elapsed_s() - before_s;
    return answer;
  }

  void raise_bound(double bound) {
    if (!bound_ || is_better(*bound_, bound)) bound_ = bound;
  }

  /// Whether `a` is the better objective.
  bool is_better(double a, double b) const { return is_rate() ? a > b : a < b; }

  static double apart(double objective, double bound) {
    if (objective == bound) return 0;
    return std::fabs(objective - bound) / std::fabs(objective);
  }

  /// The gap to the best bound so far: rates only fall, so that what was a bound stays one.
  void judge(FleetAnswer& answer) {
    if (answer.bound) raise_bound(*answer.bound);
    answer.bound = bound_;
    answer.gap.reset();
    if (!answer.objective || !bound_) return;
    if (*answer.objective != 0 || *bound_ == 0) answer.gap = apart(*answer.objective, *bound_);
    const bool was_cut = answer.status == FleetStatus::time_limit;
    if (was_cut && answer.gap && *answer.gap <= request_.gap) {
      answer.status = FleetStatus::gap_reached;
    }
  }

  void simulate(std::size_t column) {
    const double before_s = clock_.elapsed_s();
    clock_.poll();
    if (!columns_.simulate(column)) return;
    for (std::size_t c = 0; c < columns_.columns().size(); ++c) {
      const FleetEngine& engine = columns_.engine_of(columns_.columns()[c]);
      const std::vector<double> most = engine.most_per_s();
      if (master_.instance().columns[c].rate != most) {
        master_.set_rates(c, most);
        if (relaxed_ != nullptr) relaxed_->set_rates(c, most);
      }
      if (engine.is_known && known_ != nullptr) known_->set_rates(c, most);
    }
    pricing_.simulated_s += clock_.elapsed_s() - before_s;
  }

  void simulate_all() {
    for (std::size_t c = 0; c < columns_.columns().size(); ++c) simulate(c);
  }

  /// Says whether any of them was not known.
  bool simulate_used(const FleetPlacement& placement) {
    std::set<std::size_t> used;
    for (const Replica& replica : placement) used.insert(replica.column);
    bool is_new = false;
    for (const std::size_t column : used) {
      is_new = is_new || !columns_.engine_of(columns_.columns()[column]).is_known;
      simulate(column);
    }
    return is_new;
  }

  /// An instance whose columns serve nothing before somebody knows how much.
  FleetInstance of_known(FleetInstance instance) const {
    for (std::size_t c = 0; c < instance.columns.size(); ++c) {
      if (columns_.engine_of(columns_.columns()[c]).is_known) continue;
      std::vector<double>& rate = instance.columns[c].rate;
      std::fill(rate.begin(), rate.end(), 0);
    }
    return instance;
  }

  /// The best of what is known, where the time is up.
  FleetAnswer last_word() {
    FleetMaster master(of_known(master_.instance()));
    FleetOptions options;
    options.gap = request_.gap;
    options.time_limit_s = kLastWord_s;
    options.threads = request_.threads;
    options.seed = request_.seed;
    options.start = sure_ ? sure_->placement : last_known_;
    FleetAnswer answer = master.solve(options);
    answer.lack.reset();
    answer.bound = bound_;
    judge(answer);
    answer.status = clock_.status();
    return answer;
  }

  const FleetRequest& request_;
  FleetColumns& columns_;
  Clock& clock_;
  FleetPricing& pricing_;
  FleetPlacement start_;       ///< for the first round
  FleetPlacement last_known_;  ///< of columns that were simulated
  std::int64_t num_leaving_ = 0;
  FleetMaster master_;
  FleetMaster* relaxed_ = nullptr;  ///< without the reserve, while that is solved
  FleetMaster* known_ = nullptr;    ///< with what is known alone
  bool is_explored_ = false;
  std::optional<double> bound_;
  std::optional<FleetAnswer> sure_;  ///< the best of what is known
};

/// Solves with columns that are there, and says the rest.
void finish(const FleetRequest& request, Clock& clock, FleetPlacement start, PricedFleet& fleet) {
  FleetColumns& columns = *fleet.columns;
  columns.set_poll([&clock] { clock.poll(); });
  const std::int64_t simulated = columns.num_simulated();
  fleet.nodes = request.nodes;
  fleet.pricing.columns = std::ssize(columns.columns());
  fleet.pricing.shapes = static_cast<std::int64_t>(columns.num_engines());
  LazyPricing lazy(request, columns, clock, fleet.pricing, std::move(start));
  fleet.answer = lazy.run();
  columns.set_poll({});
  fleet.answer.solve_s = clock.elapsed_s();
  for (std::size_t m = 0; m < request.models.size(); ++m) {
    if (columns.note(m).empty()) continue;
    fleet.answer.notes.push_back(fmt::format("{}: {}", request.models[m].name, columns.note(m)));
  }
  fleet.pricing.simulated = columns.num_simulated() - simulated;
  if (!request.given_columns.empty()) {
    fleet.answer.notes.push_back(fmt::format(
        "{} kinds of replicas were given by a script, and count at the rates that it gave",
        request.given_columns.size()));
  }
  fleet.instance = lazy.instance();
  fleet.num_leaving = lazy.num_leaving();
  if (fleet.num_leaving > 0) {
    fleet.answer.notes.push_back(fmt::format(
        "{} of the replicas that run are on no node, or of no kind, that there is here: they stop "
        "whatever is planned, and cost no switch_usd",
        fleet.num_leaving));
  }
}

/// A placement without what had a part on lost nodes, by the numbers of those that are left.
FleetPlacement without(const FleetPlacement& placement, std::vector<std::int64_t> lost) {
  std::sort(lost.begin(), lost.end());
  FleetPlacement left;
  for (Replica replica : placement) {
    bool is_lost = false;
    for (std::int64_t& node : replica.nodes) {
      is_lost = is_lost || std::binary_search(lost.begin(), lost.end(), node);
      node -= std::lower_bound(lost.begin(), lost.end(), node) - lost.begin();
    }
    if (!is_lost) left.push_back(std::move(replica));
  }
  return left;
}

}  // namespace

PricedFleet replan_fleet(const PricedFleet& before, const FleetRequest& request,
                         const std::vector<std::int64_t>& lost) {
  Clock clock(request.time_limit_s, request.should_stop);
  PricedFleet fleet;
  fleet.columns = before.columns;
  finish(request, clock, without(before.answer.placement, lost), fleet);
  return fleet;
}

namespace {

std::shared_ptr<FleetColumns> columns_of(const FleetRequest& request, const DataFolders& folders,
                                         const std::string& path, std::function<void()> poll) {
  auto columns = std::make_shared<FleetColumns>(request.models, request.nodes, folders,
                                                path + ".models", std::move(poll));
  for (const GivenColumn& given : request.given_columns) {
    columns->add_given(given, request.nodes[given.node_class], path + ".columns");
  }
  return columns;
}

}  // namespace

PricedFleet restored_fleet(const FleetRequest& request, const FleetInstance& instance,
                           FleetPlacement placement, const std::vector<std::size_t>& known,
                           const DataFolders& folders, const std::string& path) {
  PricedFleet fleet;
  fleet.nodes = request.nodes;
  fleet.columns = columns_of(request, folders, path, {});
  const std::vector<FleetColumn>& columns = fleet.columns->columns();
  bool is_same = columns.size() == instance.columns.size();
  for (std::size_t c = 0; c < columns.size() && is_same; ++c) {
    is_same = fleet.columns->engine_of(columns[c]).name() == instance.columns[c].label &&
              columns[c].model == instance.columns[c].model;
  }
  if (!is_same) {
    refuse(ErrorCode::unsupported, path,
           "the engines that are possible now are others than those of the file, which another "
           "version made, or other data: plan the fleet anew");
  }
  for (const std::size_t column : known) {
    if (column < columns.size()) fleet.columns->simulate(column);
  }
  fleet.instance = instance;
  fleet.answer.placement = std::move(placement);
  return fleet;
}

PricedFleet plan_fleet(const FleetRequest& request, const DataFolders& folders,
                       const std::string& path) {
  check_request(request, path);
  Clock clock(request.time_limit_s, request.should_stop);
  PricedFleet fleet;
  fleet.nodes = request.nodes;
  try {
    fleet.columns = columns_of(request, folders, path, [&clock] { clock.poll(); });
  } catch (const Stopped&) {
    fleet.answer.status = clock.status();
    fleet.answer.solve_s = clock.elapsed_s();
    fleet.answer.notes.push_back("the time was up before all shapes had a bound");
    return fleet;
  }
  fleet.pricing.priced_s = clock.elapsed_s();
  finish(request, clock, {}, fleet);
  return fleet;
}

}  // namespace tessera::solver
