// A planner, then heuristics that improve its plan.

#include <fmt/format.h>

#include <limits>
#include <set>

#include "parts.h"
#include "tessera/core/error.h"
#include "tessera/solver/heuristic/heuristic_starts.h"
#include "tessera/solver/plan/build_plan.h"

namespace tessera::solver {
namespace {

[[noreturn]] void refuse_option(const std::string& name, const std::string& problem,
                                ErrorCode code = ErrorCode::invalid_argument) {
  const std::string where = "ts.plan." + name;
  throw Error(code, where + ": " + problem, where);
}

void check_chain(const std::vector<NamedPlanner>& chain, const LoweredProblem& problem,
                 const PlanOptions& options) {
  if (!chain.front().is_ilp) {
    if (options.start) refuse_option("start", "only planner = \"ilp\" takes it");
    if (options.ilp_form) refuse_option("form", "only planner = \"ilp\" takes it");
  }
  const bool improves = chain.size() > 1 || !chain.front().planner;
  if (improves && !problem.problem().constraints.empty()) {
    refuse_option("planner",
                  fmt::format("heuristic '{}' cannot keep side constraints; use planner = \"ilp\"",
                              chain.back().name),
                  ErrorCode::unsupported);
  }
}

/// A note where the heuristic was cut short, or failed and may.
std::optional<std::string> improve(const NamedPlanner& heuristic,
                                   const std::shared_ptr<ImprovingSearch>& search, double limit_s,
                                   OnError on_error) {
  if (on_error == OnError::stop) return heuristic.improver->improve(search, limit_s);
  try {
    return heuristic.improver->improve(search, limit_s);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted) throw;
    const std::string message = error.what();
    return fmt::format("on_error = continue: heuristic '{}' failed: {}", heuristic.name,
                       message.substr(0, message.find('\n')));
  }
}

std::shared_ptr<ImprovingSearch> search_from(const LoweredProblem& problem, Candidate start,
                                             const std::string& planner,
                                             const PlanRequest& request) {
  auto search = std::make_shared<ImprovingSearch>(problem, planner, std::move(start), request);
  request.on_incumbent({search->search.best(), search->search.best_objective(),
                        -std::numeric_limits<double>::infinity()});
  return search;
}

/// A heuristic that wants every start: the best of its answers.
PlanOutcome plan_from_every_start(const NamedPlanner& heuristic, const LoweredProblem& problem,
                                  const PlanOptions& options) {
  const PlanningClock clock(options);
  const PlanRequest request = request_of(problem, options, heuristic.name);
  Starts starts(problem.instance(), request);
  std::shared_ptr<ImprovingSearch> best;
  std::set<std::string> seen;
  std::vector<std::string> notes;
  double told = std::numeric_limits<double>::infinity();
  while (auto start = starts.next()) {
    PlanRequest own = starts.request();
    own.on_incumbent = [&told, &request](const Incumbent& better) {
      if (better.objective >= told) return;
      told = better.objective;
      request.on_incumbent(better);
    };
    const auto search = search_from(problem, *std::move(start), heuristic.name, own);
    const auto note = improve(heuristic, search, starts.request().time_limit_s, options.on_error);
    if (note && seen.insert(*note).second) notes.push_back(*note);
    if (!best || search->search.best_objective() < best->search.best_objective()) best = search;
  }
  if (!best) {
    if (const auto status = starts.stopped_by()) {
      return NoPlan{std::string(name_of(*status)),
                    "no plan was found within the time limit; raise time_limit_s", "",
                    std::nullopt};
    }
    return NoPlan{"infeasible",
                  starts.violation() ? starts.violation()->message
                                     : "no pair of micro-batch sizes to start from",
                  "", std::nullopt};
  }
  Plan plan = plan_of(*best, clock.elapsed_s());
  // A start that there was no time for might have led to a better plan.
  if (const auto status = starts.stopped_by()) {
    summary_of(plan).stopped_by = named<PlanStop>(name_of(*status));
  }
  add_notes(plan, notes);
  return plan;
}

}  // namespace

Plan plan_of(const ImprovingSearch& improved, double solve_s) {
  PlanResult result;
  result.status = SolveStatus::feasible;
  result.candidate = improved.search.best();
  result.objective = improved.search.best_objective();
  result.stopped_by = improved.search.stopped_by();
  result.solve_s = solve_s;
  return build_plan(improved.problem, result, improved.planner);
}

PlanOutcome plan_by_chain(const std::vector<NamedPlanner>& chain, const LoweredProblem& problem,
                          const PlanOptions& options) {
  check_chain(chain, problem, options);
  request_of(problem, options, chain.front().name);  // what every planner understands is checked
  const PlanningClock clock(options);
  const NamedPlanner& first = chain.front();
  PlanOutcome outcome = first.planner ? first.planner->plan(problem, options)
                                      : plan_from_every_start(first, problem, options);
  if (std::holds_alternative<NoPlan>(outcome)) return outcome;
  Plan plan = std::get<Plan>(std::move(outcome));
  std::string name = first.name;
  std::vector<std::string> notes;
  for (std::size_t i = 1; i < chain.size(); ++i) {
    name += " + " + chain[i].name;
    PlanOptions own = options;
    own.time_limit_s = clock.left_s();
    const auto search =
        search_from(problem, candidate_of(problem.instance(), std::get<PipelinePlan>(plan)), name,
                    request_of(problem, own, name));
    if (const auto note = improve(chain[i], search, *own.time_limit_s, options.on_error))
      notes.push_back(*note);
    Plan improved = plan_of(*search, clock.elapsed_s());
    add_notes(improved, summary_of(plan).notes);
    if (const auto stop = summary_of(plan).stopped_by) summary_of(improved).stopped_by = stop;
    plan = std::move(improved);
  }
  add_notes(plan, notes);
  return plan;
}

}  // namespace tessera::solver
