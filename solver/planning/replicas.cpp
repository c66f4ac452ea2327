// Replicas: the cluster split into pipelines that share the batch. Every way of splitting it is
// tried, with the requests shared out so that the worst replica's objective is least; a split has
// to beat the best one before it. Where the slowest replica is not the one that loses most quality,
// the least of the worst sums is a bound alone, and replica_quality.cpp goes on from there.
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
#include <map>
#include <memory>
#include <numeric>

#include "best_split.h"
#include "part_bound.h"
#include "part_planner.h"
#include "parts.h"
#include "replica_quality.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/solver/instance/numbers.h"
#include "tessera/solver/plan/build_plan.h"

namespace tessera::solver {
namespace {

const std::string kPath = "ts.plan.replicas";

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
      most[r] = plans.largest_share(split[r], most[r], cutoff);
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

std::vector<std::int64_t> among(std::vector<std::int64_t> numbers, Pipelines pipelines) {
  if (pipelines == Pipelines::one) std::erase_if(numbers, [](std::int64_t n) { return n != 1; });
  if (pipelines == Pipelines::several) std::erase(numbers, 1);
  return numbers;
}

/// The best split of all, and what there is to say of the search.
struct Found {
  std::optional<Sharing> best;
  std::vector<std::string> notes;
};

/// Searches all splits at once, where objectives do not fall with the share: of the splits that
/// might serve the batch below the best so far, by the bounds of their parts, one is planned; it is
/// better, or one of its parts serves less than its bound said. Ends when no split is left.
class AllSplits {
 public:
  /// @param several two parts at least
  AllSplits(const OpenProblem& whole, const PlanOptions& options, PartPlanner& plans, bool several)
      : problem_(*whole.first.batch()),
        batch_(problem_.workload.batch_size),
        options_(options),
        plans_(plans),
        alike_(alike_devices(problem_.cluster)),
        names_(problem_.cluster, alike_),
        splits_(counts_of(alike_), whole.first.problem().may_leave_out()),
        bound_(whole, alike_),
        cutoff_(options.cutoff.value_or(kInfinity)),
        most_of_one_(several ? batch_ - 1 : batch_),
        most_(splits_.parts().size(), most_of_one_) {}

  Found run() {
    if (cutoff_ == kInfinity) try_best_of_bounds();
    while (true) {
      if (plans_.late()) {
        plans_.run_out_of_time();
        break;
      }
      for (std::size_t i = 0; i < most_.size(); ++i) {
        most_[i] = bound_.most_served(splits_.parts()[i], most_[i], cutoff_);
      }
      const std::vector<std::size_t> parts = served_by(most_);
      if (parts.empty()) break;
      try_split(parts, most_);
    }
    if (!splits_.is_complete()) {
      plans_.leave_unproven();
      found_.notes.push_back(
          "replicas: of many unlike devices only some numbers were tried in one pipeline");
    }
    found_.notes.push_back(fmt::format(
        "replicas: best of any number; {} ways of splitting the cluster planned, the others {}",
        tried_, plans_.proven() ? "are proven to be no better" : "may be better"));
    if (!found_.best && most_of_one_ == batch_)
      plans_.plan(whole(), batch_, cutoff_);  // which says why not
    if (found_.best && found_.best->split.size() == 1) stand_on_whole();
    return std::move(found_);
  }

 private:
  static Counts counts_of(const std::vector<AlikeDevices>& alike) {
    Counts counts;
    for (const AlikeDevices& same : alike) counts.push_back(same.devices.size());
    return counts;
  }

  /// Parts that together may serve the batch, the most first; empty: no split does.
  std::vector<std::size_t> served_by(const std::vector<std::int64_t>& most) const {
    std::vector<std::size_t> parts = splits_.best(most);
    std::stable_sort(parts.begin(), parts.end(),
                     [&](std::size_t a, std::size_t b) { return most[a] > most[b]; });
    if (parts.size() > static_cast<std::size_t>(batch_))
      parts.resize(static_cast<std::size_t>(batch_));
    std::int64_t sum = 0;
    for (const std::size_t part : parts) sum += most[part];
    if (sum < batch_) parts.clear();
    return parts;
  }

  /// One pipeline is planned as one of the whole cluster, with devices left out.
  void stand_on_whole() {
    const ClusterPart& part = found_.best->split.front();
    if (part.devices.size() == problem_.cluster.devices.size()) return;
    auto plan = plans_.plan(whole(), batch_, cutoff_ + 1e-9 * std::fabs(cutoff_));
    if (plan) found_.best = Sharing{{whole()}, {batch_}, {std::move(plan)}};
  }

  ClusterPart whole() const { return place({counts_of(alike_)}, alike_, names_).front(); }

  /// The split that would be best if the bounds were true, as a start.
  void try_best_of_bounds() {
    std::vector<std::int64_t> most;
    const auto at = [&](double cutoff) {
      most.clear();
      for (const Counts& part : splits_.parts()) {
        most.push_back(bound_.most_served(part, most_of_one_, cutoff));
      }
      return served_by(most);
    };
    constexpr double kLeastS = 1e-6, kMostS = 1e9, kNear = 1.02;
    double low = kLeastS, high = kMostS;
    while (high / low > kNear) {
      const double middle = std::sqrt(low * high);
      (at(middle).empty() ? low : high) = middle;
    }
    const std::vector<std::size_t> parts = at(high);
    if (!parts.empty()) try_split(parts, most);
  }

  /// Plans a split below the cutoff, or lowers what a part of it serves at most.
  void try_split(const std::vector<std::size_t>& parts, const std::vector<std::int64_t>& most) {
    ++tried_;
    std::vector<Counts> counts;
    std::vector<std::int64_t> of_parts;
    for (const std::size_t part : parts) {
      counts.push_back(splits_.parts()[part]);
      of_parts.push_back(most[part]);
    }
    Sharing sharing{place(counts, alike_, names_), in_proportion(of_parts, batch_), {}};
    for (std::size_t r = 0; r < parts.size(); ++r) {
      if (plans_.serves(sharing.split[r], sharing.shares[r], cutoff_)) continue;
      most_[parts[r]] = plans_.largest_share(sharing.split[r], sharing.shares[r] - 1, cutoff_);
      return;
    }
    for (std::size_t r = 0; r < parts.size(); ++r) {
      sharing.plans.push_back(plans_.plan(sharing.split[r], sharing.shares[r], cutoff_));
      if (!sharing.plans.back()) {  // there was one, but no time is left to find it again
        plans_.run_out_of_time();
        most_[parts[r]] = 0;
        return;
      }
    }
    cutoff_ = sharing.worst();
    if (options_.on_incumbent) options_.on_incumbent({sharing.together(), std::nullopt});
    found_.best = std::move(sharing);
  }

  const BatchProblem& problem_;
  const std::int64_t batch_;
  const PlanOptions& options_;
  PartPlanner& plans_;
  const std::vector<AlikeDevices> alike_;
  const PartNames names_;
  const BestSplit splits_;
  const PartBound bound_;
  double cutoff_;
  const std::int64_t most_of_one_;  ///< requests that one part may have
  std::vector<std::int64_t> most_;  ///< [part] requests that it serves below the cutoff at most
  std::size_t tried_ = 0;
  Found found_;
};

/// Whether the bounds of AllSplits hold.
bool may_search_all(const OpenProblem& whole, const PlanOptions& options, bool monotone) {
  const auto& degrees = whole.choices.tensor_parallel;
  const bool one_degree = whole.choices.uniform_degree || (degrees && degrees->size() == 1);
  const BatchProblem& batch = *whole.first.batch();
  const bool may_drop =
      whole.first.problem().may_leave_out() ||
      static_cast<std::int64_t>(batch.cluster.devices.size()) <= batch.workload.batch_size;
  return monotone && options.replicas->all && one_degree && may_drop &&
         whole.first.problem().constraints.empty();
}

Found search(const BatchProblem& batch, bool monotone, const PlanOptions& options,
             const std::vector<std::int64_t>& numbers, PartPlanner& plans) {
  Found found;
  double cutoff = options.cutoff.value_or(kInfinity);
  std::size_t tried = 0;
  for (const std::int64_t number : numbers) {
    const Splits list = list_splits(batch.cluster, static_cast<std::size_t>(number));
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
      auto sharing = share_out(plans, split, batch.workload.batch_size, cutoff);
      if (!sharing) continue;
      cutoff = sharing->worst();
      if (options.on_incumbent) options.on_incumbent({sharing->together(), std::nullopt});
      found.best = std::move(sharing);
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
  const auto [least, most] = std::minmax_element(
      replicas.begin(), replicas.end(),
      [](const PipelinePlan& a, const PipelinePlan& b) { return a.omega < b.omega; });
  const bool alike = most->omega - least->omega <= 0.1 * std::fabs(most->omega);
  const std::string unlike = fmt::format(
      "replicas differ in quality, omega {} to {}: the worst stands for all, and a "
      "quality floor holds for each",
      format_number(least->omega, 3), format_number(most->omega, 3));
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    replicas[r].devices.emplace(best.split[r].devices.begin(), best.split[r].devices.end());
  }
  const std::string planner = replicas.front().planner;
  ReplicatedPlan plan = join_replicas(whole.first.problem(), std::move(replicas), planner);
  set_facts(plan, std::move(facts));
  if (!alike) plan.notes.push_back(unlike);
  return plan;
}

/// Whether the worst replica in seconds and the worst in quality are two, so that the worst sum of
/// both is not what a plan of all of them is worth.
bool loses_unlike(const Plan& plan) {
  const auto* several = std::get_if<ReplicatedPlan>(&plan);
  if (several == nullptr) return false;
  double worst = -kInfinity;
  for (const PipelinePlan& replica : several->replicas) worst = std::max(worst, replica.objective);
  return several->objective > worst + 1e-6 * std::fabs(worst);
}

}  // namespace

PlanOutcome plan_replicas(const OpenProblem& problem, const PlanOptions& options, bool proves,
                          const PlanPart& plan_part) {
  const BatchProblem* batch = problem.first.problem().batch();
  if (batch == nullptr) {
    throw Error(ErrorCode::unsupported,
                kPath + ": an instance file cannot be split; give a model and a cluster", kPath);
  }
  if (options.device_order) {
    throw Error(ErrorCode::invalid_argument,
                kPath + ": device_order names the stages of one pipeline; leave it out", kPath);
  }
  const auto num_devices = static_cast<std::int64_t>(batch->cluster.devices.size());
  const std::vector<std::int64_t> numbers =
      numbers_of(*options.replicas, std::min(num_devices, batch->workload.batch_size));
  const PlanningClock clock(options);
  const bool monotone = problem.first.problem().objective == Objective::steady &&
                        !options.prefill_micro_batch_size && !options.decode_micro_batch_size &&
                        proves;
  const PlanReplicas by_sums = [&](const OpenProblem& asked, const PlanOptions& own,
                                   Pipelines pipelines) -> PlanOutcome {
    PartPlanner plans(asked, own, plan_part);
    const std::vector<std::int64_t> tried = among(numbers, pipelines);
    if (tried.empty()) return none_below(own.cutoff.value_or(kInfinity));
    const Found found = tried.size() > 1 && may_search_all(asked, own, monotone)
                            ? AllSplits(asked, own, plans, pipelines == Pipelines::several).run()
                            : search(*batch, monotone, own, tried, plans);
    if (!found.best) return plans.why_none();
    Plan plan = finish(asked, *found.best, plans);
    add_notes(plan, found.notes);
    return plan;
  };
  PlanOutcome outcome = by_sums(problem, options, Pipelines::any);
  auto* plan = std::get_if<Plan>(&outcome);
  if (plan == nullptr || !loses_unlike(*plan)) return outcome;
  PlanOptions rest = options;
  rest.time_limit_s = clock.left_s();
  return share_quality(problem, rest, std::move(*plan), by_sums);
}

}  // namespace tessera::solver
