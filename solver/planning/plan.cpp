#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "parts.h"
#include "tessera/core/error.h"
#include "tessera/cost/price_cache.h"

namespace tessera::solver {
namespace {

[[noreturn]] void refuse_chain(const std::string& where, const std::string& problem) {
  throw Error(ErrorCode::invalid_argument, where + ": " + problem, where);
}

}  // namespace

NoPlan none_below(double cutoff) {
  return {"infeasible", fmt::format("no plan has an objective below the cutoff of {:g} s", cutoff),
          "cutoff", std::nullopt};
}

void set_facts(PlanSummary& plan, SearchFacts facts) {
  plan.status = facts.proven ? PlanStatus::optimal : PlanStatus::feasible;
  plan.stopped_by = facts.proven ? std::nullopt : facts.stopped_by;
  plan.solve_s = facts.solve_s;
  plan.bound.reset();
  plan.gap.reset();
  if (facts.bound) {
    plan.bound = std::min(*facts.bound, plan.objective);
    plan.gap = (plan.objective - *plan.bound) / std::max(std::fabs(plan.objective), 1e-12);
  }
  for (PlanCandidate& candidate : facts.candidates) {
    plan.candidates.push_back(std::move(candidate));
  }
}

void add_notes(Plan& plan, const std::vector<std::string>& notes) {
  std::vector<std::string>& all = summary_of(plan).notes;
  all.insert(all.end(), notes.begin(), notes.end());
}

std::string prover_of(const Problem& problem) {
  return problem.constraints.empty() ? "exact" : "ilp";
}

std::vector<NamedPlanner> chain_of(const std::vector<std::string>& names,
                                   const PlannerSet& planners, const std::string& where) {
  if (names.empty())
    refuse_chain(where, "the list of planners is empty; name a planner, then heuristics");
  std::vector<NamedPlanner> chain;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string at = names.size() > 1 ? fmt::format("{}[{}]", where, i + 1) : where;
    chain.push_back(planners.named(names[i], at));
    if (i > 0 && !chain.back().improver) {
      refuse_chain(at,
                   fmt::format("'{}' makes plans of its own; only heuristics may follow in a chain",
                               names[i]));
    }
  }
  const NamedPlanner& first = chain.front();
  if (first.improver && !first.planner && (!first.from_every_start || chain.size() > 1)) {
    chain.insert(chain.begin(), planners.named("adabits", where));
  } else if (!first.improver && !first.planner) {
    refuse_chain(where, fmt::format("'{}' plans nothing by itself", first.name));
  }
  return chain;
}

namespace {

/// The chain that the options name, else one that proves its plans.
std::vector<NamedPlanner> chain_for(const Problem& problem, const PlanOptions& options,
                                    const PlannerSet& planners, std::vector<std::string>& notes) {
  const std::string where = "ts.plan.planner";
  if (options.planners) return chain_of(*options.planners, planners, where);
  const std::string prover = prover_of(problem);
  if (!problem.constraints.empty())
    notes.push_back(fmt::format("planned with '{}', which keeps side constraints", prover));
  return chain_of({prover}, planners, where);
}

}  // namespace

/// Whether pipelines that share the batch are looked for though nobody says how many: where neither
/// a planner nor anything of one pipeline is asked for.
bool may_replicate(const OpenProblem& open, const PlanOptions& options) {
  const BatchProblem* batch = open.first.batch();
  if (!open.choices.may_replicate || options.replicas || batch == nullptr) return false;
  return !options.planners && open.first.problem().constraints.empty() && !options.device_order &&
         !options.prefill_micro_batch_size && !options.decode_micro_batch_size && !options.start &&
         open.first.problem().objective == Objective::steady && batch->cluster.devices.size() > 1 &&
         batch->workload.batch_size > 1;
}

PlanOutcome plan(const OpenProblem& open, const PlanOptions& asked, const PlannerSet& planners) {
  std::vector<std::string> notes;
  const std::vector<NamedPlanner> chain = chain_for(open.first.problem(), asked, planners, notes);
  PlanOptions options = asked;
  if (may_replicate(open, options)) options.replicas = ReplicaNumbers{true, {}};
  if (options.replicas && options.replicas->numbers == std::vector<std::int64_t>{1}) {
    options.replicas.reset();
  }
  OpenProblem priced_once = open;
  priced_once.prices = std::make_shared<cost::PriceCache>();
  const ResolvedFloor floor = resolve_floor(priced_once, asked, planners);
  if (floor.note) notes.push_back(*floor.note);
  const NamedPlanner& first = chain.front();
  const bool alone = chain.size() == 1;
  const bool keeps_cutoff = alone && first.planner && first.planner->keeps_cutoff();
  const PlanOne by_chain = [&](const LoweredProblem& problem, const PlanOptions& own) {
    PlanOptions known = own;
    if (!keeps_cutoff) known.cutoff.reset();
    return plan_by_chain(chain, problem, known);
  };
  const PlanPart by_choices = [&](const OpenProblem& problem, const PlanOptions& own) {
    return plan_choices(problem, own, by_chain);
  };
  const bool proves = alone && first.planner && first.planner->proves();
  const PlanPart by_replicas = [&](const OpenProblem& problem, const PlanOptions& own) {
    return plan_replicas(problem, own, proves, by_choices);
  };
  PlanOutcome outcome =
      plan_for_runtime(floor.problem, options, options.replicas ? by_replicas : by_choices);
  auto* found = std::get_if<Plan>(&outcome);
  if (found == nullptr) return outcome;
  if (options.cutoff && summary_of(*found).objective >= *options.cutoff)
    return none_below(*options.cutoff);
  add_notes(*found, notes);
  if (open.first.batch() != nullptr) {
    Choices& left_open = summary_of(*found).left_open.emplace(open.choices);
    left_open.follows_cluster = {};  // the plan is of this cluster
  }
  return outcome;
}

}  // namespace tessera::solver
