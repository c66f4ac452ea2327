#include "exact_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "path_plan.h"
#include "stage_filter.h"
#include "tessera/solver/instance/device_orders.h"
#include "tessera/solver/instance/no_plan.h"
#include "tessera/solver/moves/local_search.h"

namespace tessera::solver::exact {
namespace {

/// A better plan must gain this much, relative to the objective; well below the 1e-9 that
/// `optimal` promises and well above rounding.
constexpr double kImprovement = 4e-10;
constexpr double kProofTolerance = 1e-9;
/// A search that is not over by this round walks for a better plan, with so many moves per layer.
constexpr std::size_t kWalkRound = 4;
constexpr std::int64_t kWalkMoves = 1000;
/// A search of a few milliseconds would wait for its threads longer than they help.
constexpr std::chrono::milliseconds kAlone{10};
constexpr std::size_t kFirstPairs = 4;
constexpr std::size_t kFewStates = 16, kFewStages = 3;
/// (state, layers done) nodes of a graph; 16 bytes each and thread.
constexpr double kMostNodes = 4e7, kMostNodesOfAllThreads = 4.5e7;
/// They are found one by one, in about a microsecond each.
constexpr double kMostRuledStates = 2e5;
/// Omegas in the table, 8 bytes each.
constexpr std::size_t kMostEntries = 40000000;
/// Later ones hardly raise the bound of all orders.
constexpr std::size_t kMostOrderFreeBoxes = 400;

bool keep_all(const ConfigTable::Shape&, const std::uint16_t*, std::size_t, bool, const double*) {
  return true;
}

// Whether some kind of device holds a stage within the box of some open pair.
class FitsSomewhere {
 public:
  FitsSomewhere(const SearchSpace& space, const std::vector<OpenBox>& open) : space_(space) {
    for (const OpenBox& box : open) {
      const Pair& pair = space.pairs()[box.pair];
      for (std::size_t k = 0; k < space.kinds().size(); ++k) {
        const ByPlace<double>& room = pair.room_bytes[k];
        limits_.push_back({&pair, k, *std::max_element(room.begin(), room.end()), box.box});
      }
    }
  }

  bool operator()(const std::uint16_t* counts) const {
    // Neighbouring configurations mostly pass by the same limit.
    for (std::size_t i = 0; i < limits_.size(); ++i) {
      const std::size_t at = (last_ + i) % limits_.size();
      if (!holds(limits_[at], counts)) continue;
      last_ = at;
      return true;
    }
    return false;
  }

 private:
  struct Limit {
    const Pair* pair;
    std::size_t kind;
    double bytes;
    Box box;
  };

  bool holds(const Limit& limit, const std::uint16_t* counts) const {
    const std::size_t cells = space_.num_cells(), row = limit.kind * cells;
    double prefill = 0, decode = 0, bytes = 0;
    for (std::size_t cell = 0; cell < cells; ++cell) {
      if (counts[cell] == 0) continue;
      if (!space_.allowed(limit.kind, cell)) return false;
      prefill += counts[cell] * limit.pair->prefill_s[row + cell];
      decode += counts[cell] * limit.pair->decode_s[row + cell];
      bytes += counts[cell] * space_.layer_bytes(limit.kind, cell);
    }
    return bytes <= limit.bytes && prefill <= limit.box.prefill_high &&
           decode <= limit.box.decode_high;
  }

  const SearchSpace& space_;
  std::vector<Limit> limits_;
  mutable std::size_t last_ = 0;
};

// Lowest bound first; the older of equals.
bool later(const OpenBox& a, const OpenBox& b) {
  if (a.bound != b.bound) return a.bound > b.bound;
  return a.number > b.number;
}

}  // namespace

ExactSearch::ExactSearch(const Instance& instance, const PlanRequest& request)
    : instance_(instance), request_(request), deadline_(request), space_(instance, request) {
  notes_ = space_.notes();
  num_threads_ =
      request.threads > 0 ? static_cast<std::size_t>(request.threads) : hardware_threads();
  num_threads_ = std::min(num_threads_, kRound);
}

PlanResult ExactSearch::run() {
  choose_graphs();
  for (const Pair& pair : space_.pairs()) fluid_.emplace_back(space_, pair);
  hopeless_ = nothing_fits();
  if (hopeless_) return finish();
  workers_ = std::make_unique<ThreadPool>(num_threads_, kAlone);
  find_best_pairs();
  find_first_plan();
  bound_pairs();
  build_table();
  bound_all_orders(0);
  solve_boxes();
  bound_all_orders(kMostOrderFreeBoxes);
  return finish();
}

void ExactSearch::choose_graphs() {
  const double stride = static_cast<double>(space_.num_layers() + 1);
  double nodes = stride * static_cast<double>(space_.num_positions() + 1);
  if (space_.order()) {
    graphs_.plain = Graph::chain(space_, *space_.order());
  } else if (StageOrder(instance_).binds()) {
    const double most_states = std::min(kMostRuledStates, kMostNodes / stride);
    graphs_.plain = Graph::ruled(space_, static_cast<std::size_t>(most_states));
    if (!graphs_.plain) restrict_orders(stride);
    nodes = static_cast<double>(graphs_.plain->num_states()) * stride;
  } else if (Graph::num_count_states(space_) * stride <= kMostNodes) {
    graphs_.plain = Graph::counts(space_);
    nodes = Graph::num_count_states(space_) * stride;
    const bool links_matter =
        std::any_of(space_.pairs().begin(), space_.pairs().end(), [](const Pair& pair) {
          return pair.slowest_prefill_link_s > pair.least_prefill_max_s ||
                 pair.slowest_decode_link_s > pair.least_decode_max_s;
        });
    if (links_matter && Graph::num_linked_states(space_) * stride <= kMostNodes) {
      graphs_.linked = Graph::linked(space_);
      nodes = Graph::num_linked_states(space_) * stride;
    } else if (links_matter) {
      notes_.push_back(
          "links slower than stages and too many device groups to follow every order of them: "
          "links are bounded, not searched");
    }
  } else {
    restrict_orders(stride);
    nodes = static_cast<double>(graphs_.plain->num_states()) * stride;
  }
  const double most = std::max(1.0, kMostNodesOfAllThreads / nodes);
  num_threads_ = std::min(num_threads_, static_cast<std::size_t>(most));
}

// Too many states for every order: orders in which the devices of a group stand together, or where
// even these are too many, groups by falling memory.
void ExactSearch::restrict_orders(double stride) {
  restricted_ = true;
  const char* which = "in which the devices of a type stand together";
  const bool is_ruled = StageOrder(instance_).binds();
  if (!is_ruled && Graph::num_block_states(space_) * stride <= kMostNodes) {
    graphs_.plain = Graph::blocks(space_);
  } else {
    graphs_.plain = Graph::chain(space_, devices_by_memory(instance_));
    which = is_ruled ? "node by node and by falling memory" : "by falling memory";
  }
  notes_.push_back(fmt::format(
      "{:.2g} combinations of devices are too many to search every order: only orders {} were "
      "searched; the bound holds for every order",
      Graph::num_count_states(space_), which));
}

// Bounds pairs until the most promising ones are known: what rises above these is left there.
void ExactSearch::find_best_pairs() {
  by_bound_.resize(fluid_.size());
  std::iota(by_bound_.begin(), by_bound_.end(), 0);
  sort_pairs();
  std::vector<double> least;
  for (std::size_t first = 0; first < by_bound_.size() && !stopped(); first += kFirstPairs) {
    const std::size_t count = std::min(kFirstPairs, by_bound_.size() - first);
    const double enough = least.empty() ? kInfinity : least[kFirstPairs - 1];
    workers_->run(count, [&](std::size_t, std::size_t i) {
      if (!deadline_.reached()) fluid_[by_bound_[first + i]].improve(enough);
    });
    for (std::size_t i = 0; i < count; ++i) least.push_back(fluid_[by_bound_[first + i]].bound());
    std::sort(least.begin(), least.end());
  }
  sort_pairs();
}

// Raises the bounds that are not yet above the first plan.
void ExactSearch::bound_pairs() {
  const double enough = cutoff();
  workers_->run(fluid_.size(), [&](std::size_t, std::size_t i) {
    if (!deadline_.reached()) fluid_[i].improve(enough);
  });
  sort_pairs();
}

void ExactSearch::sort_pairs() {
  std::stable_sort(by_bound_.begin(), by_bound_.end(), [this](std::size_t a, std::size_t b) {
    return fluid_[a].bound() < fluid_[b].bound();
  });
}

OpenBox ExactSearch::root(std::size_t pair, const Box& box) const {
  OpenBox open;
  open.pair = pair;
  open.box = box;
  open.multipliers = fluid_[pair].multipliers();
  open.bound = fluid_[pair].bound() - 1e-12 * std::fabs(fluid_[pair].bound());
  return open;
}

ConfigTable::Admits ExactSearch::fits_memory() const {
  std::vector<double> most(space_.kinds().size(), 0);
  for (std::size_t k = 0; k < most.size(); ++k) {
    for (const Pair& pair : space_.pairs()) {
      const ByPlace<double>& room = pair.room_bytes[k];
      most[k] = std::max(most[k], *std::max_element(room.begin(), room.end()));
    }
  }
  return [this, most](const std::uint16_t* counts) {
    for (std::size_t k = 0; k < most.size(); ++k) {
      double bytes = 0;
      for (std::size_t cell = 0; cell < space_.num_cells(); ++cell) {
        bytes += counts[cell] * space_.layer_bytes(k, cell);
      }
      if (bytes <= most[k]) return true;
    }
    return false;
  };
}

// A plan that fits still fits with every layer at the smallest bitwidth of its device, and without
// a limit on time nothing else can go wrong: one shortest path a pair.
bool ExactSearch::nothing_fits() {
  const ConfigTable table(space_, fits_memory(), keep_all, 1, kMostEntries);
  if (!table.complete() || restricted_) return false;
  PathSearch search(space_, table);
  Weights weights;
  weights.prefill.assign(space_.kinds().size(), 0);
  weights.decode = weights.prefill;
  for (std::size_t i = 0; i < space_.pairs().size(); ++i) {
    if (stopped()) return false;
    const Pair& pair = space_.pairs()[i];
    const OptionSet options = all_options(space_, pair, table, Box{}, fluid_[i], kInfinity);
    if (search.find({&pair, &*graphs_.plain, Box{}, &options}, weights) < kInfinity) return false;
  }
  return true;
}

// Stages of at most two bitwidths are few and nearly always good enough to prune well; where the
// paths cost little, stages of one bitwidth prune these first.
void ExactSearch::find_first_plan() {
  const bool few_states = graphs_.plain->num_states() <= kFewStates;
  for (std::size_t support = few_states ? 1 : 2; support <= 2; ++support) {
    std::vector<OpenBox> roots;
    for (std::size_t i = 0; i < std::min(kFirstPairs, by_bound_.size()); ++i) {
      const FluidBound& fluid = fluid_[by_bound_[i]];
      if (fluid.bound() < cutoff()) roots.push_back(root(by_bound_[i], fluid.box_below(kInfinity)));
    }
    if (roots.empty() || stopped()) return;
    const ConfigTable table = table_of(roots, support, kMostEntries);
    if (table.complete()) find_incumbents(roots, table, space_.num_positions() <= kFewStages);
  }
}

// Primal heuristic: looks for better plans in the root boxes; `thorough`: until they would be
// branched on.
void ExactSearch::find_incumbents(const std::vector<OpenBox>& roots, const ConfigTable& table,
                                  bool thorough) {
  const double limit = cutoff();
  const auto should_stop = [this] { return deadline_.reached().has_value(); };
  std::vector<std::optional<Path>> found(roots.size());
  std::vector<std::unique_ptr<BoxSolver>> solvers(workers_->size());
  workers_->run(roots.size(), [&](std::size_t worker, std::size_t i) {
    auto& solver = solvers[worker];
    if (!solver) solver = std::make_unique<BoxSolver>(space_, table, graphs_, fluid_);
    found[i] = thorough ? solver->solve(roots[i], limit, tolerance(), should_stop).better
                        : solver->find_incumbent(roots[i], limit, should_stop);
  });
  for (std::size_t i = 0; i < roots.size(); ++i) {
    if (found[i]) offer(*found[i], table, roots[i].pair);
  }
}

// A percent of objective is worth many boxes.
void ExactSearch::walk_from_best() {
  if (!best_) return;
  LocalSearchSetting walk;
  walk.order = best_->order;
  walk.free_order = !space_.order();
  walk.prefill_micro_batch_size = best_->prefill_micro_batch_size;
  walk.decode_micro_batch_size = best_->decode_micro_batch_size;
  walk.num_moves = kWalkMoves * static_cast<std::int64_t>(instance_.num_layers());
  walk.seed = request_.seed;
  if (auto better = local_search(instance_, walk, deadline_, &*best_)) offer(*std::move(better));
}

// Holds what fits some device within some root's box and may be part of a plan below the cutoff.
ConfigTable ExactSearch::table_of(const std::vector<OpenBox>& roots, std::size_t max_support,
                                  std::size_t max_entries) const {
  const FitsSomewhere fits(space_, roots);
  StageFilter filter(space_, cutoff());
  for (const OpenBox& open : roots) filter.add_pair(open.pair, fluid_[open.pair], open.box);
  return ConfigTable(
      space_, [&fits](const std::uint16_t* counts) { return fits(counts); },
      [&filter](const ConfigTable::Shape& shape, const std::uint16_t* counts,
                std::size_t num_classes, bool whole, const double* omega) {
        return filter.keeps(shape, counts, num_classes, whole, omega);
      },
      max_support, max_entries);
}

void ExactSearch::build_table() {
  if (stopped()) return;
  const double limit = cutoff();
  for (const std::size_t pair : by_bound_) {
    if (fluid_[pair].bound() < limit) push(root(pair, fluid_[pair].box_below(limit)));
  }
  table_ = std::make_unique<ConfigTable>(table_of(open_, instance_.num_bits(), kMostEntries));
  table_is_whole_ = table_->complete();
  if (table_is_whole_) return;
  notes_.push_back(
      "too many combinations of bitwidths in a stage: only stages of at most two bitwidths were "
      "searched, so the plan is not proven; offer fewer bitwidths for a proof");
  restricted_ = true;
  table_ = std::make_unique<ConfigTable>(table_of(open_, 2, 2 * kMostEntries));
}

// The boxes that are searched hold some orders only. Needs the table, and goes on where it stopped.
void ExactSearch::bound_all_orders(std::size_t max_boxes) {
  if (!restricted_ || !table_ || !table_is_whole_) return;
  if (!order_free_) {
    order_free_ = std::make_unique<OrderFreeSearch>(space_, *table_, fluid_, cutoff(), *workers_);
    for (const OpenBox& open : open_) order_free_->add_pair(open.pair, open.box);
  }
  order_free_->run(std::max(max_boxes, open_.size()), cutoff(),
                   [this] { return deadline_.reached().has_value(); });
}

void ExactSearch::push(OpenBox box) {
  box.number = num_boxes_++;
  open_.push_back(std::move(box));
  std::push_heap(open_.begin(), open_.end(), later);
}

OpenBox ExactSearch::pop() {
  std::pop_heap(open_.begin(), open_.end(), later);
  OpenBox box = std::move(open_.back());
  open_.pop_back();
  return box;
}

void ExactSearch::solve_boxes() {
  if (!table_) return;
  for (std::size_t i = 0; i < workers_->size(); ++i) {
    solvers_.push_back(std::make_unique<BoxSolver>(space_, *table_, graphs_, fluid_));
  }
  for (std::size_t rounds = 0; !open_.empty() && !stopped(); ++rounds) {
    if (rounds == kWalkRound) walk_from_best();
    std::vector<OpenBox> round;
    while (!open_.empty() && round.size() < kRound) {
      OpenBox box = pop();
      if (box.bound >= cutoff()) {
        open_.clear();
        break;
      }
      round.push_back(std::move(box));
    }
    if (!round.empty()) solve_round(std::move(round));
  }
}

void ExactSearch::solve_round(std::vector<OpenBox> round) {
  in_hand_ = round.front().bound;
  const double limit = cutoff();
  std::vector<BoxOutcome> outcomes(round.size());
  workers_->run(round.size(), [&](std::size_t worker, std::size_t i) {
    outcomes[i] = solvers_[worker]->solve(round[i], limit, tolerance(),
                                          [this] { return deadline_.reached().has_value(); });
  });
  const bool cut_short = stopped();
  for (std::size_t i = 0; i < round.size(); ++i) {
    for (OpenBox& child : outcomes[i].children) {
      child.bound = std::max(child.bound, round[i].bound);
      push(std::move(child));
    }
    if (outcomes[i].unresolved) unresolved_ = std::min(unresolved_, outcomes[i].bound);
    if (cut_short) unresolved_ = std::min(unresolved_, round[i].bound);
  }
  in_hand_ = kInfinity;
  for (std::size_t i = 0; i < round.size(); ++i) {
    if (outcomes[i].better) offer(*outcomes[i].better, *table_, round[i].pair);
  }
}

void ExactSearch::offer(const Path& path, const ConfigTable& table, std::size_t pair) {
  Candidate plan = plan_of(space_, table, space_.pairs()[pair], path);
  if (!space_.order()) drop_idle_devices(instance_, plan);
  if (find_violation(instance_, plan)) {
    // Only rounding at a limit can do this; what was cut off for its sake is not proven.
    unresolved_ = std::min(unresolved_, path.objective);
    return;
  }
  offer(std::move(plan));
}

void ExactSearch::offer(Candidate plan) {
  const double objective = evaluate(instance_, plan).objective;
  if (objective >= (best_ ? best_objective_ : request_cutoff())) return;
  best_ = std::move(plan);
  best_objective_ = objective;
  if (request_.on_incumbent) request_.on_incumbent({*best_, objective, bound()});
}

double ExactSearch::tolerance() const { return std::max(kImprovement, request_.gap); }

double ExactSearch::request_cutoff() const { return request_.cutoff.value_or(kInfinity); }

double ExactSearch::cutoff() const {
  if (!best_) return request_cutoff();
  return best_objective_ - tolerance() * std::fabs(best_objective_);
}

double ExactSearch::bound() const {
  double least = std::min(in_hand_, unresolved_);
  if (!open_.empty()) least = std::min(least, open_.front().bound);
  if (restricted_ || !table_) {
    for (const FluidBound& fluid : fluid_) least = std::min(least, fluid.bound());
  }
  if (order_free_) least = std::max(least, order_free_->bound());
  // What was pruned was no better than the cutoff.
  return std::min(least, cutoff());
}

bool ExactSearch::stopped() {
  if (!stopped_by_) stopped_by_ = deadline_.reached();
  return stopped_by_.has_value();
}

PlanResult ExactSearch::finish() {
  PlanResult result;
  result.notes = std::move(notes_);
  const bool exhausted =
      hopeless_ || (table_ && open_.empty() && unresolved_ == kInfinity && !restricted_);
  const double least = bound();
  if (best_) {
    result.candidate = best_;
    result.objective = best_objective_;
    const double tolerance = std::max(kProofTolerance, request_.gap * (1 + kProofTolerance));
    const bool proven = least >= best_objective_ - tolerance * std::fabs(best_objective_);
    result.status = proven ? SolveStatus::optimal : SolveStatus::feasible;
    if (!proven && stopped_by_) result.stopped_by = stopped_by_;
  } else if (exhausted) {
    result.status = SolveStatus::infeasible;
    PlanRequest asked = request_;
    if (hopeless_) asked.cutoff.reset();  // it is not what binds
    result.violation =
        explain_exhausted(instance_, asked, !space_.pairs().empty(), deadline_.left_s(),
                          [](const Instance& in, const PlanRequest& request) {
                            return ExactSearch(in, request).run();
                          });
  } else {
    result.status = stopped_by_.value_or(SolveStatus::time_limit);
    result.stopped_by = stopped_by_;
  }
  if (std::isfinite(least) && !hopeless_) result.bound = least;
  result.solve_s = deadline_.elapsed_s();
  return result;
}

}  // namespace tessera::solver::exact
