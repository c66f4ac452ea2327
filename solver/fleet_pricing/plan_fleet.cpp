#include "tessera/solver/fleet_pricing/plan_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <utility>

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

// Rounds that take longer are not followed by one of what is known alone.
constexpr double kCheap_s = 2;

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

/// Of each class's devices, the name that its type has in the instance.
using TypeNames = std::vector<std::vector<std::string>>;

/// Devices of one name cost the same in an instance: those that cost something else in another
/// class are a type of that class.
TypeNames add_nodes(const std::vector<NodeKind>& nodes, FleetInstance& instance) {
  std::map<std::string, double> prices;
  std::set<std::string> class_names;
  TypeNames names;
  for (const NodeKind& kind : nodes) {
    NodeClass its;
    its.name = kind.name;
    for (int copy = 2; !class_names.insert(its.name).second; ++copy) {
      its.name = fmt::format("{} ({})", kind.name, copy);
    }
    its.count = kind.count;
    its.usd_per_h = kind.usd_per_h.value_or(0);
    std::vector<std::string>& own = names.emplace_back();
    for (std::size_t i = 0; i < kind.node->devices.size(); ++i) {
      std::string type = kind.node->devices[i].device.name;
      const double price = kind.device_usd_per_h(i).value_or(0);
      const auto known = prices.find(type);
      if (known != prices.end() && known->second != price) {
        type += fmt::format(" of {}", its.name);
      }
      if (prices.try_emplace(type, price).second) instance.device_types.push_back({type, price});
      ++its.devices[type];
      own.push_back(std::move(type));
    }
    instance.node_classes.push_back(std::move(its));
  }
  return names;
}

void add_constraints(const FleetRequest& request, FleetInstance& instance) {
  instance.constraints = request.constraints;
  for (std::size_t m = 0; m < request.models.size(); ++m) {
    const NamedModel& model = request.models[m];
    FleetConstraint own{.model = m, .min_nodes = model.min_nodes};
    if (model.min_replicas > 0) own.min_replicas = model.min_replicas;
    own.max_gpus = model.max_gpus;
    if (own.min_nodes || own.min_replicas || own.max_gpus) instance.constraints.push_back(own);
  }
}

FleetInstance instance_of(const FleetRequest& request, const FleetColumns& columns) {
  FleetInstance instance;
  instance.objective = request.objective;
  instance.billing = request.billing;
  instance.reserve_nodes = request.reserve_nodes;
  instance.max_usd_per_h = request.max_usd_per_h;
  const TypeNames types = add_nodes(request.nodes, instance);
  for (std::size_t m = 0; m < request.models.size(); ++m) {
    const NamedModel& model = request.models[m];
    const auto other = request.demand_per_s.find(model.name);
    const bool is_other = other != request.demand_per_s.end();
    const double demand = is_other ? other->second : columns.demand_per_s(m);
    instance.models.push_back({model.name, {demand}, model.weight});
  }
  for (const FleetColumn& each : columns.columns()) {
    Column column;
    column.model = each.model;
    for (std::size_t i = 0; i < each.devices.size(); ++i) {
      if (each.devices[i] > 0) ++column.devices[types[each.node_class][i]];
    }
    column.rate = {columns.engine_of(each).most_per_s()};
    column.nodes = each.nodes;
    column.node_class = each.node_class;
    column.label = columns.engine_of(each).priced->name();
    instance.columns.push_back(std::move(column));
  }
  add_constraints(request, instance);
  return instance;
}

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
        master_(instance_of(request, columns)) {}

  FleetAnswer run() {
    try {
      if (request_.simulate_all) simulate_all();
      if (request_.reserve_nodes > 0 && start_.empty()) {
        FleetInstance relaxed = master_.instance();
        relaxed.reserve_nodes = 0;
        FleetMaster master(std::move(relaxed));
        followers_.push_back(&master);
        rounds(master);
        followers_.pop_back();
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

 private:
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
    followers_.push_back(&known);
    FleetAnswer answer = rounds(master, known);
    followers_.pop_back();
    return answer;
  }

  FleetAnswer rounds(FleetMaster& master, FleetMaster& known) {
    double share = kShareOfRound;
    while (true) {
      ++pricing_.rounds;
      const double before_s = clock_.elapsed_s();
      FleetAnswer answer = solve(master, clock_.left_s() * share);
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
      if (simulate_used(answer.placement)) {
        if (took_s > kCheap_s) continue;
        // What is known may be good enough already, whatever else could still be a little better.
        FleetAnswer sure = solve(known, std::min(clock_.left_s() * kShareOfRound, took_s + 0.1));
        sure.bound.reset();
        judge(sure);
        if (!sure.placement.empty() && sure.gap && *sure.gap <= request_.gap) {
          sure.status = FleetStatus::gap_reached;
          return sure;
        }
        continue;
      }
      const bool is_done = answer.gap && *answer.gap <= request_.gap;
      if (is_done || answer.status != FleetStatus::time_limit || share >= kShareOfLast) {
        return answer;
      }
      share = kShareOfLast;
    }
  }

  FleetAnswer solve(FleetMaster& master, double time_limit_s) {
    const double before_s = clock_.elapsed_s();
    FleetOptions options = options_of(time_limit_s);
    options.round = request_.round;
    options.start = std::exchange(start_, {});
    FleetAnswer answer = master.solve(options);
    pricing_.master_s += clock_.elapsed_s() - before_s;
    return answer;
  }

  /// The gap to the best bound so far: rates only fall, so that what was a bound stays one.
  void judge(FleetAnswer& answer) {
    const bool is_rate = request_.objective == FleetObjective::rate;
    if (answer.bound &&
        (!bound_ || (is_rate ? *answer.bound < *bound_ : *answer.bound > *bound_))) {
      bound_ = answer.bound;
    }
    answer.bound = bound_;
    answer.gap.reset();
    if (!answer.objective || !bound_) return;
    const double apart = std::fabs(*answer.objective - *bound_);
    if (apart == 0) answer.gap = 0;
    if (*answer.objective != 0) answer.gap = apart / std::fabs(*answer.objective);
    const bool was_cut = answer.status == FleetStatus::time_limit;
    if (was_cut && answer.gap && *answer.gap <= request_.gap) {
      answer.status = FleetStatus::gap_reached;
    }
  }

  void simulate(std::size_t column) {
    const double before_s = clock_.elapsed_s();
    clock_.poll();
    if (!columns_.simulate(column)) return;
    const std::size_t engine = columns_.columns()[column].engine;
    for (std::size_t c = 0; c < columns_.columns().size(); ++c) {
      const FleetColumn& other = columns_.columns()[c];
      if (other.engine != engine) continue;
      const double rate = columns_.engine_of(other).rate_per_s;
      master_.set_rates(c, {rate});
      for (FleetMaster* follower : followers_) follower->set_rates(c, {rate});
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
      if (!columns_.engine_of(columns_.columns()[c]).is_known) instance.columns[c].rate = {0};
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
  FleetPlacement start_;  ///< for the first round
  FleetMaster master_;
  std::vector<FleetMaster*> followers_;  ///< others with the same columns
  std::optional<double> bound_;
};

void check(const FleetRequest& request, const std::string& path) {
  if (request.nodes.empty()) refuse(path, "give a cluster, or nodes to rent");
  if (request.models.empty()) refuse(path + ".models", "the list is empty");
  if (request.objective != FleetObjective::cost && !request.max_usd_per_h) return;
  for (const NodeKind& kind : request.nodes) {
    if (kind.usd_per_h) continue;
    refuse(path, "no price of {} is known; give usd_per_h, or a device's price_usd_per_h",
           kind.name);
  }
}

}  // namespace

namespace {

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
  fleet.instance = lazy.instance();
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

PricedFleet plan_fleet(const FleetRequest& request, const DataFolders& folders,
                       const std::string& path) {
  check(request, path);
  Clock clock(request.time_limit_s, request.should_stop);
  PricedFleet fleet;
  fleet.nodes = request.nodes;
  try {
    fleet.columns = std::make_shared<FleetColumns>(request.models, request.nodes, folders,
                                                   path + ".models", [&clock] { clock.poll(); });
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
