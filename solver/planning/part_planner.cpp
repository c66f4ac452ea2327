#include "part_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/core/error.h"
#include "tessera/solver/instance/numbers.h"

namespace tessera::solver {

double Sharing::worst() const {
  double objective = -kInfinity;
  for (const auto& plan : plans) objective = std::max(objective, summary_of(*plan).objective);
  return objective;
}

double Sharing::together() const {
  double seconds = -kInfinity, quality = -kInfinity;
  for (const auto& plan : plans) {
    const PlanSummary& part = summary_of(*plan);
    const double loss = part.problem.instance().theta * part.omega;
    seconds = std::max(seconds, part.objective - loss);
    quality = std::max(quality, loss);
  }
  return seconds + quality;
}

void PartPlanner::run_out_of_time() {
  proven_ = false;
  stopped_by_ = PlanStop::time_limit;
}

std::shared_ptr<const Plan> PartPlanner::plan(const ClusterPart& part, std::int64_t share,
                                              double cutoff) {
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

bool PartPlanner::serves(const ClusterPart& part, std::int64_t share, double cutoff) {
  const Known& known = known_[{part.key, share}];
  if (known.at_most && *known.at_most < cutoff) return true;
  return ask(part, share, cutoff, 1) != nullptr;
}

std::int64_t PartPlanner::largest_share(const ClusterPart& part, std::int64_t high, double cutoff) {
  const auto known = most_served_.find(part.key);
  if (known != most_served_.end()) {
    const MostServed& most = known->second;
    if (most.cutoff == cutoff) return std::min(high, most.share);
    if (most.cutoff > cutoff) high = std::min(high, most.share);
  }
  std::int64_t low = 0, refused = high + 1;
  while (low + 1 < refused) {
    const std::int64_t middle = (low + refused) / 2;
    if (serves(part, middle, cutoff)) {
      low = middle;
    } else {
      refused = middle;
    }
  }
  if (refused <= high) most_served_[part.key] = {cutoff, low};
  return low;
}

Plan PartPlanner::standing_on(const ClusterPart& part, std::int64_t share) {
  const Known& known = known_.at({part.key, share});
  if (known.devices == part.devices) return *known.plan;
  return std::get<Plan>(make(part, share, kInfinity, clock_.limit_s(), std::nullopt));
}

NoPlan PartPlanner::why_none() const {
  if (stopped_) return *stopped_;
  if (late()) {
    return {"time_limit", "no plan was found within the time limit; raise time_limit_s", "",
            std::nullopt};
  }
  return why_.value_or(
      NoPlan{"infeasible", "the cluster cannot be split into as many replicas", "", std::nullopt});
}

PlanOutcome PartPlanner::make(const ClusterPart& part, std::int64_t share, double cutoff,
                              double time_limit_s, std::optional<double> gap) const {
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
  if (part.devices.size() == whole_.first.problem().batch()->cluster.devices.size())
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
std::shared_ptr<const Plan> PartPlanner::ask(const ClusterPart& part, std::int64_t share,
                                             double cutoff, std::optional<double> gap) {
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

}  // namespace tessera::solver
