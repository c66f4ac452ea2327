// Planners and heuristics of the engine under their names.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/solver/instance/even_stages.h"
#include "tessera/solver/instance/grouping.h"
#include "tessera/solver/plan/build_plan.h"
#include "tessera/solver/planning/planners.h"
#include "tessera/solver/planning/planning.h"

namespace tessera::solver {
namespace {

/// The plan to start from, which must solve this problem under what the request fixes.
Candidate start_of(const Instance& instance, const Plan& given, const PlanRequest& request) {
  const std::string where = "ts.plan.start";
  const auto refuse = [&](const std::string& reason) {
    throw Error(ErrorCode::invalid_argument, where + ": " + reason, where);
  };
  const auto* plan = std::get_if<PipelinePlan>(&given);
  if (plan == nullptr) refuse("a plan with replicas has no stages; give one of plan.replicas");
  Candidate start;
  try {
    start = candidate_of(instance, *plan);
  } catch (const Error& e) {
    refuse(std::string("the plan is none of this problem: ") + e.what());
  }
  if (const auto violation = find_violation(instance, start))
    refuse("the plan breaks this problem: " + violation->message);
  if (request.order && *request.order != start.order)
    refuse("its devices are in another order than device_order says");
  for (const auto& [name, asked, has] :
       {std::tuple{"prefill", request.prefill_micro_batch_size, start.prefill_micro_batch_size},
        std::tuple{"decode", request.decode_micro_batch_size, start.decode_micro_batch_size}}) {
    if (asked && *asked != has)
      refuse(fmt::format("its {} micro-batch size is {}, {} was asked for", name, has, *asked));
  }
  return start;
}

/// A planner over the instance.
class EnginePlanner : public ProblemPlanner {
 public:
  explicit EnginePlanner(std::unique_ptr<Planner> planner)
      : planner_(std::move(planner)), name_(planner_->card().name) {}

  bool keeps_cutoff() const override { return true; }
  bool proves() const override { return name_ == "exact" || name_ == "ilp"; }

  PlanOutcome plan(const LoweredProblem& problem, const PlanOptions& options) const override {
    const Instance& instance = problem.instance();
    PlanRequest request = request_of(problem, options, name_);
    if (options.start) request.start = start_of(instance, *options.start, request);
    if (options.ilp_form) request.ilp_form = *options.ilp_form;
    if (options.group > 1 && (!instance.rows.empty() || request.start)) {
      throw Error(ErrorCode::invalid_argument,
                  "ts.plan.group: side constraints and a start decide single layers; leave out "
                  "group",
                  "ts.plan.group");
    }
    PlanResult result =
        plan_layer_blocks(*planner_, instance, request, static_cast<std::size_t>(options.group));
    if (!result.candidate) return why_none(result);
    if (instance.stage_rule == StageRule::one_node) {
      result.candidate = even_stages(instance, *std::move(result.candidate));
      result.objective = evaluate(instance, *result.candidate).objective;
    }
    // A planner that knows nothing of side constraints may break them.
    if (!instance.rows.empty()) {
      if (const auto violation = find_violation(instance, *result.candidate))
        return NoPlan{"infeasible", violation->message, violation->constraint, std::nullopt};
    }
    return build_plan(problem, result, name_);
  }

 private:
  std::unique_ptr<Planner> planner_;
  std::string name_;
};

/// A heuristic over the search.
class EngineImprover : public PlanImprover {
 public:
  explicit EngineImprover(std::unique_ptr<Heuristic> heuristic)
      : heuristic_(std::move(heuristic)) {}

  std::optional<std::string> improve(const std::shared_ptr<ImprovingSearch>& search,
                                     double) const override {
    heuristic_->improve(search->search);
    if (!search->search.expired()) return std::nullopt;
    return fmt::format("heuristic '{}' ended at its time limit", heuristic_->card().name);
  }

 private:
  std::unique_ptr<Heuristic> heuristic_;
};

class EnginePlanners : public PlannerSet {
 public:
  EnginePlanners() {
    for (const auto& [name, doc, source] : solver::planners().cards()) {
      NamedPlanner& entry = planners_.emplace_back();
      entry.name = name;
      entry.is_ilp = name == "ilp";
      entry.planner = std::make_shared<EnginePlanner>(solver::planners().make(name));
    }
    for (const auto& card : heuristics().cards()) {
      const auto known =
          std::find_if(planners_.begin(), planners_.end(),
                       [&](const NamedPlanner& planner) { return planner.name == card.name; });
      NamedPlanner& entry = known != planners_.end() ? *known : planners_.emplace_back();
      entry.name = card.name;
      entry.improver = std::make_shared<EngineImprover>(heuristics().make(card.name));
    }
  }

  NamedPlanner named(const std::string& name, const std::string& where) const override {
    std::vector<std::string> names;
    for (const NamedPlanner& entry : planners_) {
      if (entry.name == name) return entry;
      names.push_back(entry.name);
    }
    throw Error(ErrorCode::not_found,
                fmt::format("{}: unknown planner '{}'{}", where, name, did_you_mean(name, names)),
                where);
  }

  const NamedPlanner* find(const std::string& name) const {
    const auto found = std::find_if(planners_.begin(), planners_.end(),
                                    [&](const NamedPlanner& entry) { return entry.name == name; });
    return found == planners_.end() ? nullptr : &*found;
  }

 private:
  std::vector<NamedPlanner> planners_;
};

std::int64_t checked_size(const char* name, std::int64_t size, const Instance& instance) {
  if (size <= instance.batch_size) return size;
  const std::string where = fmt::format("ts.plan.{}", name);
  throw Error(
      ErrorCode::out_of_range,
      fmt::format("{}: {} is more than the batch of {} requests", where, size, instance.batch_size),
      where);
}

const EnginePlanners& all_planners() {
  static const EnginePlanners planners;
  return planners;
}

}  // namespace

const PlannerSet& engine_planners() { return all_planners(); }

std::optional<NamedPlanner> find_engine_planner(const std::string& name) {
  const NamedPlanner* found = all_planners().find(name);
  return found == nullptr ? std::nullopt : std::optional<NamedPlanner>(*found);
}

NoPlan why_none(const PlanResult& result) {
  if (result.status == SolveStatus::infeasible) {
    if (!result.violation)
      return {"infeasible", "no plan satisfies every constraint", "", result.bound};
    return {"infeasible", result.violation->message, result.violation->constraint, result.bound};
  }
  if (result.status == SolveStatus::interrupted)
    return {"interrupted", "interrupted before a plan was found", "", result.bound};
  return {"time_limit", "no plan was found within the time limit; raise time_limit_s", "",
          result.bound};
}

PlanRequest request_of(const LoweredProblem& problem, const PlanOptions& options,
                       const std::string& planner) {
  const Instance& instance = problem.instance();
  PlanRequest request;
  if (options.device_order) request.order = order_from_names(instance, *options.device_order);
  if (options.prefill_micro_batch_size) {
    request.prefill_micro_batch_size =
        checked_size("prefill_micro_batch_size", *options.prefill_micro_batch_size, instance);
  }
  if (options.decode_micro_batch_size) {
    request.decode_micro_batch_size =
        checked_size("decode_micro_batch_size", *options.decode_micro_batch_size, instance);
  }
  request.time_limit_s =
      std::min(options.time_limit_s.value_or(kDefaultTimeLimitS), options.left_s());
  request.cutoff = options.cutoff;
  request.gap = options.gap;
  request.threads = options.threads;
  request.seed = options.seed;
  request.stop = options.stop;
  request.on_incumbent = [problem, planner, watch = options.watch, tell = options.on_incumbent,
                          below = options.news_below](const Incumbent& incumbent) {
    if (watch) watch(problem, incumbent, planner);
    if (!tell || (below && incumbent.objective >= *below)) return;
    IncumbentNews news{incumbent.objective, std::nullopt};
    if (!below && std::isfinite(incumbent.bound)) news.bound = incumbent.bound;
    tell(news);
  };
  return request;
}

}  // namespace tessera::solver
