// Problems with open choices: every way to settle them is planned, and the best plan is returned
// with what came of the others. Each way has to beat the best before it, which proves most of them
// hopeless at little cost, unless every candidate is asked for.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "parts.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/solver/instance/mix_bound.h"

namespace tessera::solver {
namespace {

/// The variants in which the devices of an order exist; all of them without an order.
Variants with_devices(const OpenProblem& problem,
                      const std::optional<std::vector<std::string>>& device_order) {
  Variants all = list_variants(problem);
  if (!device_order) return all;
  Variants kept;
  kept.notes = all.notes;
  std::optional<Error> first_error;
  for (std::size_t i = 0; i < all.problems.size(); ++i) {
    try {
      order_from_names(all.problems[i].instance(), *device_order);
      kept.problems.push_back(all.problems[i]);
      kept.names.push_back(all.names[i]);
    } catch (const Error& error) {
      if (!first_error) first_error = error;
    }
  }
  if (kept.problems.empty()) throw *first_error;
  return kept;
}

/// Takes the variants out that cannot be priced, and returns what is to be said of them. One alone
/// is left to its planner. @throws the first reason where none is left.
std::vector<PlanCandidate> take_unpriced(Variants& variants) {
  std::vector<PlanCandidate> unpriced;
  if (variants.problems.size() == 1) return unpriced;
  Variants priced;
  std::optional<Error> first_error;
  for (std::size_t i = 0; i < variants.problems.size(); ++i) {
    const std::optional<Error> error = why_not_priced(variants.problems[i]);
    if (!error) {
      priced.problems.push_back(variants.problems[i]);
      priced.names.push_back(variants.names[i]);
      continue;
    }
    if (!first_error) first_error = error;
    PlanCandidate& candidate = unpriced.emplace_back();
    candidate.name = variants.names[i];
    candidate.status = "unpriced";
    candidate.message = error->what();
    variants.notes.push_back(
        fmt::format("{} was left out, as it cannot be priced: {}", candidate.name, error->what()));
  }
  if (priced.problems.empty()) throw *first_error;
  variants.problems = std::move(priced.problems);
  variants.names = std::move(priced.names);
  return unpriced;
}

/// Indices of the variants with a lower bound on the objective each, the most promising first.
std::vector<std::pair<double, std::size_t>> by_bound(const Variants& variants) {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < variants.problems.size(); ++i) {
    const Instance& instance = variants.problems[i].instance();
    double bound = -std::numeric_limits<double>::infinity();
    if (instance.objective == Objective::steady && variants.problems.size() > 1 &&
        MixBound::is_quick(instance)) {
      std::vector<std::int64_t> counts;
      for (const DeviceGroup& group : instance.groups) counts.push_back(group.count);
      bound = MixBound(instance).objective(counts, instance.batch_size);
    }
    order.emplace_back(bound, i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return order;
}

PlanCandidate candidate_of(const std::string& name, const PlanOutcome& outcome,
                           std::optional<double> cutoff) {
  PlanCandidate candidate;
  candidate.name = name;
  if (const auto* made = std::get_if<Plan>(&outcome)) {
    const PlanSummary& plan = summary_of(*made);
    candidate.status = name_of(plan.status);
    candidate.objective = plan.objective;
    candidate.latency_s = plan.latency_s;
    candidate.bound = plan.bound;
    return candidate;
  }
  const NoPlan& why = std::get<NoPlan>(outcome);
  const bool by_cutoff = why.constraint == "cutoff";
  candidate.status = by_cutoff ? "cutoff" : why.code;
  candidate.bound = by_cutoff ? cutoff : why.bound;
  candidate.message = why.message;
  return candidate;
}

bool was_stopped(const PlanCandidate& candidate) {
  return candidate.status == "time_limit" || candidate.status == "interrupted";
}

/// What cut the search of a variant short, if anything did.
std::optional<PlanStop> stop_of(const PlanOutcome& outcome) {
  if (const auto* made = std::get_if<Plan>(&outcome)) return summary_of(*made).stopped_by;
  return named<PlanStop>(std::get<NoPlan>(outcome).code);
}

/// Infeasible variants have no bound because they have no plan; others without one leave the search
/// without one.
std::optional<double> least_bound(const std::vector<PlanCandidate>& candidates) {
  const double infinity = std::numeric_limits<double>::infinity();
  double least = infinity;
  for (const PlanCandidate& candidate : candidates) {
    if (candidate.status != "infeasible")
      least = std::min(least, candidate.bound.value_or(-infinity));
  }
  return std::isfinite(least) ? std::optional<double>(least) : std::nullopt;
}

bool is_proven(const std::vector<PlanCandidate>& candidates) {
  return std::none_of(candidates.begin(), candidates.end(), [](const PlanCandidate& candidate) {
    return candidate.status == "feasible" || candidate.status == "unpriced" ||
           was_stopped(candidate);
  });
}

/// The outcome that tells most about why there is no plan: one that ran out of time, else all.
NoPlan why_none(const std::vector<PlanCandidate>& candidates, const std::vector<NoPlan>& reasons,
                std::optional<double> cutoff) {
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (was_stopped(candidates[i])) return reasons[i];
  }
  for (const PlanCandidate& candidate : candidates) {
    if (candidate.status != "infeasible") return none_below(cutoff.value_or(0));
  }
  if (candidates.size() == 1) return reasons.front();
  constexpr std::size_t kTold = 3;
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < std::min(candidates.size(), kTold); ++i)
    lines.push_back(candidates[i].name + ": " + candidates[i].message);
  if (candidates.size() > kTold)
    lines.push_back(fmt::format("and {} more", candidates.size() - kTold));
  return {"infeasible", "no choice has a plan; " + join(lines, "; "), reasons.front().constraint,
          std::nullopt};
}

}  // namespace

std::optional<Error> why_not_priced(const LoweredProblem& problem) {
  try {
    problem.instance().prefill(1);
    problem.instance().decode(1);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

LoweredProblem variant_with(const OpenProblem& problem, const std::vector<std::string>& devices) {
  return with_devices(without_runtime(problem), devices).problems.front();
}

PlanOutcome plan_choices(const OpenProblem& problem, const PlanOptions& options,
                         const PlanOne& plan_one) {
  Variants variants = with_devices(problem, options.device_order);
  const std::vector<PlanCandidate> unpriced = take_unpriced(variants);
  if (variants.problems.size() == 1 && variants.notes.empty())
    return plan_one(variants.problems.front(), options);
  const PlanningClock clock(options);
  std::optional<Plan> best;
  std::vector<PlanCandidate> candidates(variants.problems.size());
  std::vector<NoPlan> reasons(variants.problems.size());
  std::optional<PlanStop> stopped_by;
  std::optional<double> cutoff = options.cutoff;
  for (const auto& [bound, i] : by_bound(variants)) {
    PlanOptions own = options;
    own.cutoff = options.every_candidate ? options.cutoff : cutoff;
    own.time_limit_s = clock.left_s();
    own.news_below = cutoff.value_or(std::numeric_limits<double>::infinity());
    PlanOutcome outcome = own.cutoff && bound >= *own.cutoff ? none_below(*own.cutoff)
                                                             : plan_one(variants.problems[i], own);
    candidates[i] = candidate_of(variants.names[i], outcome, own.cutoff);
    if (!stopped_by) stopped_by = stop_of(outcome);
    auto* made = std::get_if<Plan>(&outcome);
    if (made == nullptr) reasons[i] = std::get<NoPlan>(outcome);
    if (made == nullptr) continue;
    const double objective = summary_of(*made).objective;
    if (!cutoff || objective < *cutoff) {
      best = std::move(*made);
      cutoff = objective;
    }
    // Objectives are not negative: any plan is within this gap.
    if (best && options.gap == 1) return *std::move(best);
  }
  if (!best) return why_none(candidates, reasons, options.cutoff);
  candidates.insert(candidates.end(), unpriced.begin(), unpriced.end());
  SearchFacts facts{
      is_proven(candidates), least_bound(candidates), clock.elapsed_s(), {}, stopped_by};
  if (candidates.size() > 1) facts.candidates = std::move(candidates);
  set_facts(summary_of(*best), std::move(facts));
  add_notes(*best, variants.notes);
  return *std::move(best);
}

}  // namespace tessera::solver
