// Quality floors that name a baseline.

#include <fmt/format.h>

#include <algorithm>

#include "parts.h"

namespace tessera::solver {
namespace {

OpenProblem with_floor(const OpenProblem& open, std::optional<double> max_omega) {
  Problem problem = open.first.problem();
  problem.quality_at_least.reset();
  problem.max_omega = max_omega;
  return {LoweredProblem(std::move(problem)), open.choices};
}

/// The floor is the baseline's quality, whatever else plans must keep, whoever runs them; and
/// baselines do not save on the KV cache.
OpenProblem for_baseline(const OpenProblem& open) {
  OpenProblem plain = with_floor(open, std::nullopt);
  Problem problem = plain.first.problem();
  problem.constraints.clear();
  problem.runtime.reset();
  Choices choices = open.choices;
  if (choices.kv_bitwidths) {
    choices.kv_bitwidths = {
        {*std::max_element(choices.kv_bitwidths->begin(), choices.kv_bitwidths->end())}};
  }
  return open_problem(std::move(problem), std::move(choices));
}

}  // namespace

ResolvedFloor resolve_floor(const OpenProblem& open, const PlanOptions& options,
                            const PlannerSet& planners) {
  const Problem& problem = open.first.problem();
  if (!problem.quality_at_least) return {open, std::nullopt};
  const std::string& floor = *problem.quality_at_least;
  const std::string where = "ts.problem.quality.at_least";
  planners.named(floor, where);
  const OpenProblem free = for_baseline(open);
  PlanOptions plain;
  plain.stop = options.stop;
  plain.left_s = options.left_s;
  plain.watch = options.watch;
  std::vector<std::string> baselines = {floor};
  if (floor != "het") baselines.push_back("het");
  for (const std::string& name : baselines) {
    plain.planners = {{name}};
    const PlanOutcome outcome = plan(free, plain, planners);
    const auto* baseline = std::get_if<Plan>(&outcome);
    if (baseline == nullptr) continue;
    const double omega = summary_of(*baseline).omega;
    std::string note = fmt::format("quality floor: omega of {}, {:.6g}", name, omega);
    if (name != floor) note += fmt::format(" ({} does not fit)", floor);
    return {with_floor(open, omega), note};
  }
  if (problem.batch() != nullptr && problem.theta_unit == ThetaUnit::s_per_normalised_omega)
    return {with_floor(open, 1), "quality floor: 4 bits throughout (no baseline fits)"};
  return {with_floor(open, std::nullopt), "quality floor: none (no baseline fits)"};
}

}  // namespace tessera::solver
