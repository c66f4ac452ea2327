// Replicas: the cluster split into pipelines that share the batch. Every way of splitting it is
// tried, with the requests shared out so that the worst replica's objective is least; a split has
// to beat the best one before it.
//
// A plan for b requests serves b - 1 as well: with micro-batches no larger there are no more of
// them, and no cost grows. So under the steady objective a part's best objective does not fall as
// its share grows, and the largest share that stays below the best so far is found by bisection. It
// may fall under the papers' objective, which fixes the decode micro-batch by batch and stages,
// with micro-batch sizes that are given, and for planners that do not prove their plans: there
// every share of every part is planned.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>

#include "parts.h"
#include "splits.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/solver/plan/build_plan.h"

namespace tessera::solver {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const std::string kPath = "ts.plan.replicas";

/// A split with a plan of each part; parts that are alike share one, made on the first one's
/// devices.
struct Sharing {
  Split split;
  std::vector<std::int64_t> shares;  ///< [part] requests
  std::vector<std::shared_ptr<const Plan>> plans;

  double worst() const {
    double objective = -kInfinity;
    for (const auto& plan : plans) objective = std::max(objective, summary_of(*plan).objective);
    return objective;
  }
};

/// Plans of parts of the cluster, by what the part holds and its share of the batch, each made
/// once.
class PartPlanner {
 public:
  PartPlanner(const OpenProblem& whole, const PlanOptions& options, const PlanPart& plan_part)
      : whole_(whole), options_(options), plan_part_(plan_part), clock_(options) {}

  const PlanningClock& clock() const { return clock_; }
  bool late() const { return clock_.late(); }
  /// Whether everything so far is proven, and what it took otherwise.
  bool proven() const { return proven_; }
  void leave_unproven() { proven_ = false; }
  void run_out_of_time() {
    proven_ = false;
    stopped_by_ = PlanStop::time_limit;
  }
  std::optional<PlanStop> stopped_by() const { return stopped_by_; }

  /// The plan of a share of the batch on a part of the cluster; null where none is below the
  /// cutoff.
  std::shared_ptr<const Plan> plan(const ClusterPart& part, std::int64_t share, double cutoff) {
    Known& known = known_[{part.key, share}];
    if (known.plan && summary_of(*known.plan).objective < cutoff) return known.plan;
    auto plan = ask(part, share, cutoff, std::nullopt);
    if (!plan) return nullptr;
    known.plan = plan;
    known.devices = part.devices;
    known.at_least.reset();
    if (options_.gap == 0) known.at_least = summary_of(*plan).objective;
    return plan;
  }

  /// Whether any plan of it is below the cutoff, which is soon told.
  bool serves(const ClusterPart& part, std::int64_t share, double cutoff) {
    const Known& known = known_[{part.key, share}];
    if (known.at_most && *known.at_most < cutoff) return true;
    return ask(part, share, cutoff, 1) != nullptr;
  }

  /// The plan of a share that was found, on exactly these devices.
  Plan standing_on(const ClusterPart& part, std::int64_t share) {
    const Known& known = known_.at({part.key, share});
    if (known.devices == part.devices) return *known.plan;
    return std::get<Plan>(make(part, share, kInfinity, clock_.limit_s(), std::nullopt));
  }

  NoPlan why_none() const {
    if (stopped_) return *stopped_;
    if (late()) {
      return {"time_limit", "no plan was found within the time limit; raise time_limit_s", "",
              std::nullopt};
    }
    return why_.value_or(NoPlan{"infeasible", "the cluster cannot be split into as many replicas",
                                "", std::nullopt});
  }

 private:
  struct Known {
    std::shared_ptr<const Plan> plan;
    std::vector<std::size_t> devices;         ///< that the plan stands on
    std::optional<double> at_least, at_most;  ///< of the best objective
  };

  PlanOutcome make(const ClusterPart& part, std::int64_t share, double cutoff, double time_limit_s,
                   std::optional<double> gap) const {
    PlanOptions own = options_;
    own.replicas.reset();
    own.on_incumbent = nullptr;
    own.every_candidate = false;
    own.cutoff = cutoff < kInfinity ? std::optional<double>(cutoff) : std::nullopt;
    own.time_limit_s = time_limit_s;
    own.gap = gap.value_or(options_.gap);
    const std::pair<const char*, std::optional<std::int64_t>> sizes[] = {
        {"prefill_micro_batch_size", own.prefill_micro_batch_size},
        {"decode_micro_batch_size", own.decode_micro_batch_size}};
    for (const auto& [name, size] : sizes) {
      if (!size || *size <= share) continue;
      return NoPlan{"infeasible", fmt::format("{} requests are fewer than {}", share, name),
                    "micro_batch", std::nullopt};
    }
    if (part.devices.size() == whole_.first.problem().serving()->cluster.devices.size())
      return plan_part_(whole_, own);
    std::optional<OpenProblem> on_part;
    try {
      on_part = part_of(whole_, part.devices, share);
    } catch (const Error& error) {
      if (error.where() != "tensor_parallel") throw;
      return NoPlan{"infeasible", error.what(), "tensor_parallel", std::nullopt};
    }
    return plan_part_(*on_part, own);
  }

  /// A plan below the cutoff, within the gap; what is learnt is kept.
  std::shared_ptr<const Plan> ask(const ClusterPart& part, std::int64_t share, double cutoff,
                                  std::optional<double> gap) {
    Known& known = known_[{part.key, share}];
    if (known.at_least && *known.at_least >= cutoff) return nullptr;
    PlanOutcome outcome = make(part, share, cutoff, clock_.left_s(), gap);
    if (auto* made = std::get_if<Plan>(&outcome)) {
      const PlanSummary& plan = summary_of(*made);
      if (plan.status != PlanStatus::optimal && !gap) proven_ = false;  // `serves` takes any plan
      if (!stopped_by_) stopped_by_ = plan.stopped_by;
      known.at_most = std::min(known.at_most.value_or(kInfinity), plan.objective);
      if (plan.objective < cutoff) return std::make_shared<const Plan>(std::move(*made));
      known.at_least = plan.objective;  // of a planner that does not know of the cutoff
      return nullptr;
    }
    const NoPlan& why = std::get<NoPlan>(outcome);
    known.at_least = why.constraint == "cutoff" ? cutoff : kInfinity;
    if (why.code != "infeasible") {
      proven_ = false;
      stopped_ = why;
      if (!stopped_by_) stopped_by_ = named<PlanStop>(why.code);
    }
    if (!why_) why_ = why;
    return nullptr;
  }

  const OpenProblem& whole_;
  const PlanOptions& options_;
  const PlanPart& plan_part_;
  PlanningClock clock_;
  std::map<std::pair<std::string, std::int64_t>, Known> known_;
  bool proven_ = true;
  std::optional<NoPlan> stopped_, why_;
  std::optional<PlanStop> stopped_by_;
};

/// The largest share that a part serves below the cutoff, at most `high`; its objective does not
/// fall with the share.
std::int64_t largest_share(PartPlanner& plans, const ClusterPart& part, std::int64_t high,
                           double cutoff) {
  std::int64_t low = 0;
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    if (plans.serves(part, middle, cutoff)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// Shares in proportion to what each part could serve, which sum to the batch.
std::vector<std::int64_t> in_proportion(const std::vector<std::int64_t>& most, std::int64_t batch) {
  const auto sum = static_cast<double>(std::accumulate(most.begin(), most.end(), std::int64_t{0}));
  std::vector<std::int64_t> shares;
  std::int64_t left = batch;
  for (const std::int64_t number : most) {
    const double share = static_cast<double>(batch) * static_cast<double>(number) / sum;
    shares.push_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(share))));
    left -= shares.back();
  }
  while (left != 0) {
    const std::int64_t step = left > 0 ? 1 : -1;
    for (std::size_t r = 0; r < shares.size() && left != 0; ++r) {
      const std::int64_t next = shares[r] + step;
      if (next < 1 || next > most[r]) continue;
      shares[r] = next;
      left -= step;
    }
  }
  return shares;
}

/// Best shares of a split where objectives do not fall with the share: as long as the parts
/// together could serve the batch below the best so far, some shares are better.
std::optional<Sharing> share_by_bisection(PartPlanner& plans, const Split& split,
                                          std::int64_t batch, double cutoff) {
  if (split.size() == 1) {
    auto plan = plans.plan(split.front(), batch, cutoff);
    if (!plan) return std::nullopt;
    return Sharing{split, {batch}, {std::move(plan)}};
  }
  std::optional<Sharing> best;
  const auto num_parts = static_cast<std::int64_t>(split.size());
  std::vector<std::int64_t> most(split.size(), batch - num_parts + 1);
  while (!plans.late()) {
    std::int64_t sum = 0;
    for (std::size_t r = 0; r < split.size(); ++r) {
      most[r] = largest_share(plans, split[r], most[r], cutoff);
      if (most[r] == 0) return best;
      sum += most[r];
    }
    if (sum < batch) return best;
    Sharing found{split, in_proportion(most, batch), {}};
    for (std::size_t r = 0; r < split.size(); ++r) {
      found.plans.push_back(plans.plan(split[r], found.shares[r], cutoff));
      if (!found.plans.back()) return best;
    }
    cutoff = found.worst();
    best = std::move(found);
  }
  plans.run_out_of_time();
  return best;
}

/// Best shares of a split by planning every share: a dynamic programme over the parts, by the
/// requests that those so far serve.
std::optional<Sharing> share_by_enumeration(PartPlanner& plans, const Split& split,
                                            std::int64_t batch, double cutoff) {
  struct Best {
    double objective = kInfinity;  ///< the worst of the parts so far
    std::int64_t share = 0;        ///< of the last of them
  };
  using ByRequests = std::map<std::int64_t, Best>;
  std::vector<ByRequests> stages = {{{0, {-kInfinity, 0}}}};
  const auto num_parts = static_cast<std::int64_t>(split.size());
  for (const ClusterPart& part : split) {
    ByRequests next;
    for (std::int64_t share = 1; share <= batch - num_parts + 1; ++share) {
      const auto plan = plans.plan(part, share, cutoff);
      if (!plan) continue;
      for (const auto& [before, best] : stages.back()) {
        const std::int64_t requests = before + share;
        if (requests > batch) break;
        const double objective = std::max(best.objective, summary_of(*plan).objective);
        const auto [known, fresh] = next.try_emplace(requests, Best{objective, share});
        if (!fresh && objective < known->second.objective) known->second = {objective, share};
      }
    }
    stages.push_back(std::move(next));
  }
  if (stages.back().count(batch) == 0) return std::nullopt;
  Sharing found{split, std::vector<std::int64_t>(split.size()), {}};
  found.plans.resize(split.size());
  std::int64_t left = batch;
  for (std::size_t r = split.size(); r-- > 0;) {
    found.shares[r] = stages[r + 1].at(left).share;
    found.plans[r] = plans.plan(split[r], found.shares[r], cutoff);
    left -= found.shares[r];
  }
  return found;
}

/// The numbers of replicas to try.
std::vector<std::int64_t> numbers_of(const ReplicaNumbers& asked, std::int64_t most) {
  std::vector<std::int64_t> numbers = asked.numbers;
  if (asked.all) {
    numbers.resize(static_cast<std::size_t>(most));
    std::iota(numbers.begin(), numbers.end(), 1);
  }
  for (const std::int64_t number : numbers) {
    if (number <= most) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} replicas need as many devices and requests; there are {} at "
                            "most",
                            kPath, number, most),
                kPath);
  }
  return numbers;
}

/// The best split of all, and what there is to say of the search.
struct Found {
  std::optional<Sharing> best;
  std::vector<std::string> notes;
};

Found search(const ServingProblem& serving, bool monotone, const PlanOptions& options,
             const std::vector<std::int64_t>& numbers, PartPlanner& plans) {
  Found found;
  double cutoff = options.cutoff.value_or(kInfinity);
  std::size_t tried = 0;
  for (const std::int64_t number : numbers) {
    const Splits list = list_splits(serving.cluster, static_cast<std::size_t>(number));
    if (!list.complete) {
      plans.leave_unproven();
      found.notes.push_back(
          fmt::format("more than {} ways of splitting the cluster into {}: {}", kMostSplits, number,
                      list.splits.empty() ? "none was tried, as there are no equal parts"
                                          : "only equal parts were tried"));
    }
    for (const Split& split : list.splits) {
      if (plans.late()) {
        plans.run_out_of_time();
        break;
      }
      ++tried;
      const auto share_out = monotone ? share_by_bisection : share_by_enumeration;
      auto sharing = share_out(plans, split, serving.workload.batch_size, cutoff);
      if (!sharing) continue;
      cutoff = sharing->worst();
      found.best = std::move(sharing);
      if (options.on_incumbent) options.on_incumbent({cutoff, std::nullopt});
    }
  }
  found.notes.push_back(fmt::format("replicas: best of {}, {} ways of splitting the cluster",
                                    fmt::join(numbers, ", "), tried));
  return found;
}

/// The replicas as one plan; what no solve found below the best objective is proven not to be
/// there.
Plan finish(const OpenProblem& whole, const Sharing& best, PartPlanner& plans) {
  std::vector<PipelinePlan> replicas;
  for (std::size_t r = 0; r < best.split.size(); ++r) {
    replicas.push_back(std::get<PipelinePlan>(plans.standing_on(best.split[r], best.shares[r])));
  }
  double worst = -kInfinity;
  for (const PipelinePlan& replica : replicas) worst = std::max(worst, replica.objective);
  SearchFacts facts{
      plans.proven(), std::nullopt, plans.clock().elapsed_s(), {}, plans.stopped_by()};
  if (plans.proven()) facts.bound = worst - 1e-9 * std::fabs(worst);
  if (replicas.size() == 1) {
    set_facts(replicas.front(), std::move(facts));
    return std::move(replicas.front());
  }
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    replicas[r].devices.emplace(best.split[r].devices.begin(), best.split[r].devices.end());
  }
  const std::string planner = replicas.front().planner;
  ReplicatedPlan plan = join_replicas(whole.first.problem(), std::move(replicas), planner);
  set_facts(plan, std::move(facts));
  return plan;
}

}  // namespace

PlanOutcome plan_replicas(const OpenProblem& problem, const PlanOptions& options, bool proves,
                          const PlanPart& plan_part) {
  const ServingProblem* serving = problem.first.problem().serving();
  if (serving == nullptr) {
    throw Error(ErrorCode::unsupported,
                kPath + ": an instance file cannot be split; give a model and a cluster", kPath);
  }
  if (options.device_order) {
    throw Error(ErrorCode::invalid_argument,
                kPath + ": device_order names the stages of one pipeline; leave it out", kPath);
  }
  const auto num_devices = static_cast<std::int64_t>(serving->cluster.devices.size());
  const std::vector<std::int64_t> numbers =
      numbers_of(*options.replicas, std::min(num_devices, serving->workload.batch_size));
  const bool monotone = problem.first.problem().objective == Objective::steady &&
                        !options.prefill_micro_batch_size && !options.decode_micro_batch_size &&
                        proves;
  PartPlanner plans(problem, options, plan_part);
  const Found found = search(*serving, monotone, options, numbers, plans);
  if (!found.best) return plans.why_none();
  Plan plan = finish(problem, *found.best, plans);
  add_notes(plan, found.notes);
  return plan;
}

}  // namespace tessera::solver
