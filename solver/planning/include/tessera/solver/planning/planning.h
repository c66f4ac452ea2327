#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/record.h"
#include "tessera/core/units.h"
#include "tessera/solver/instance/planner.h"
#include "tessera/solver/moves/plan_search.h"
#include "tessera/solver/plan/plan.h"
#include "tessera/solver/problem/open_problem.h"

/// Planning as users mean it: a problem with open choices, a quality floor that names a baseline,
/// several replicas, a planner and heuristics after it, one time limit for all of it. `plan` is the
/// only way in, from C++ as from scripts.
namespace tessera::solver {

/// Why there is no plan, where that is an answer and not an error.
struct NoPlan {
  std::string code;             ///< "infeasible", "time_limit", "interrupted", or a script's own
  std::string message;          ///< for people, with numbers and units
  std::string constraint;       ///< what binds: "memory", "quality", "cutoff", ...; empty: unknown
  std::optional<double> bound;  ///< no plan is below it (s)
};

/// A plan, or why there is none.
using PlanOutcome = std::variant<Plan, NoPlan>;

/// A better plan was found.
struct IncumbentNews {
  double objective = 0;         ///< s
  std::optional<double> bound;  ///< s; absent where it is not one of the whole search
};

/// How many pipelines share the batch.
struct ReplicaNumbers {
  bool all = false;                   ///< every number that devices and requests allow
  std::vector<std::int64_t> numbers;  ///< unless `all`: those to try, in this order
};

/// What to do when a heuristic fails after a plan was found.
enum class OnError {
  stop,
  go_on  ///< with the best plan so far, and a note
};

/// What is fixed, what limits the search, and who hears of it. What is absent is searched.
struct PlanOptions {
  std::optional<std::vector<std::string>> planners;      ///< a planner, then heuristics; absent:
                                                         ///< one that proves its plans
  std::optional<std::vector<std::string>> device_order;  ///< names by stage
  std::optional<std::int64_t> prefill_micro_batch_size;
  std::optional<std::int64_t> decode_micro_batch_size;
  std::optional<ReplicaNumbers> replicas;  ///< absent: as the problem's choices say
  bool every_candidate = false;  ///< plan each open choice for its own sake, not only until it is
                                 ///< proven no better
  std::optional<double> cutoff;  ///< only plans with a lower objective are of interest (s)
  std::optional<double> time_limit_s;  ///< absent: kDefaultTimeLimitS
  double gap = 0;                      ///< relative gap at which to stop
  std::int32_t threads = 0;            ///< 0: all cores
  std::int64_t group = 1;              ///< neighbouring layers decided together
  OnError on_error = OnError::stop;
  std::uint64_t seed = 0;
  std::optional<IlpForm> ilp_form;    ///< of the ILP planner
  std::shared_ptr<const Plan> start;  ///< of the ILP planner: a plan of this problem

  const std::atomic<bool>* stop = nullptr;  ///< set by Ctrl-C
  /// What a limit around the whole call leaves (s).
  std::function<double()> left_s = [] { return std::numeric_limits<double>::infinity(); };
  /// Hears of better plans. May throw, which ends the planning with that error.
  std::function<void(const IncumbentNews&)> on_incumbent;
  /// News of one of several solves count only below this objective, and its bound is not the whole
  /// search's.
  std::optional<double> news_below;
  /// Sees every better plan of any solve, news or not: for whoever shows it on Ctrl-C.
  std::function<void(const LoweredProblem&, const Incumbent&, const std::string& planner)> watch;
};

inline constexpr double kDefaultTimeLimitS = 60;

/// Plans a problem without open choices. Implemented by planners of the engine over its instance,
/// and by the adapter of planners that are scripts.
class ProblemPlanner {
 public:
  virtual ~ProblemPlanner() = default;
  virtual PlanOutcome plan(const LoweredProblem& problem, const PlanOptions& options) const = 0;
  /// Whether an answer without a plan below the cutoff proves that there is none.
  virtual bool keeps_cutoff() const { return false; }
  /// Whether an answer is optimal, or says by how much it may not be.
  virtual bool proves() const { return false; }
};

/// A plan under improvement, which heuristics share with whoever they hand it to.
struct ImprovingSearch {
  LoweredProblem problem;
  std::string planner;  ///< who is named in the plan that comes of it
  PlanSearch search;

  ImprovingSearch(LoweredProblem of, std::string by, Candidate start, const PlanRequest& request)
      : problem(std::move(of)),
        planner(std::move(by)),
        search(problem.instance(), std::move(start), request) {}
};
/// The best plan that the search met.
Plan plan_of(const ImprovingSearch& search, double solve_s);

/// Improves a plan by moves. Implemented by heuristics of the engine and by the adapter of
/// heuristics that are scripts.
class PlanImprover {
 public:
  virtual ~PlanImprover() = default;
  /// @return a note, where it was cut short.
  virtual std::optional<std::string> improve(const std::shared_ptr<ImprovingSearch>& search,
                                             double limit_s) const = 0;
};

/// What a name stands for: a planner, a heuristic, or both.
struct NamedPlanner {
  std::string name;
  std::shared_ptr<const ProblemPlanner> planner;  ///< null: a heuristic
  std::shared_ptr<const PlanImprover> improver;   ///< null: only makes plans of its own
  bool from_every_start = false;  ///< a heuristic alone: from every start, not from one plan
  bool is_ilp = false;            ///< takes `start` and `ilp_form`
};

/// The planners and heuristics that can be named.
class PlannerSet {
 public:
  virtual ~PlannerSet() = default;
  /// @param where the option that names it. @throws Error{not_found} with the nearest names.
  virtual NamedPlanner named(const std::string& name, const std::string& where) const = 0;
};

/// The planners and heuristics of the engine: "exact", "ilp", "adabits", "bitwidth_transfer", ...
const PlannerSet& engine_planners();
/// One of them; absent where the name is none of theirs.
std::optional<NamedPlanner> find_engine_planner(const std::string& name);
/// What a solve that found no plan says of it.
NoPlan why_none(const PlanResult& result);

/// Plans a problem: over its open choices, floors, replicas and chain of planners.
/// @throws Error{invalid_argument | out_of_range | unsupported | not_found} naming the option, and
/// what `on_incumbent`, planners and heuristics throw.
PlanOutcome plan(const OpenProblem& problem, const PlanOptions& options,
                 const PlannerSet& planners = engine_planners());

/// The chain that names stand for. A heuristic in front improves what "adabits" finds, unless it
/// wants every start. @param where the option that names them.
std::vector<NamedPlanner> chain_of(const std::vector<std::string>& names,
                                   const PlannerSet& planners, const std::string& where);

/// The planner that proves optima of a problem: the exact search cannot keep side constraints, the
/// ILP does.
std::string prover_of(const Problem& problem);

/// A floor that names a baseline becomes a number: that baseline's omega, else Het's, else 4 bits
/// throughout, else none. Without such a floor the problem as it is.
struct ResolvedFloor {
  OpenProblem problem;
  std::optional<std::string> note;
};
ResolvedFloor resolve_floor(const OpenProblem& problem, const PlanOptions& options,
                            const PlannerSet& planners);

/// The plan as one for a runtime to launch, or why it cannot be: of a problem that may have none.
PlanOutcome launched_by(Runtime runtime, Plan plan);

/// The first way to settle the open choices in which these devices exist ("2xT4-16G"), whatever the
/// runtime: what a plan made by hand is priced by. @throws as order_from_names where there is none.
LoweredProblem variant_with(const OpenProblem& problem, const std::vector<std::string>& devices);

/// What a planner of the engine is asked, from the options. @throws as order_from_names, and
/// Error{out_of_range} for a micro-batch beyond the batch.
PlanRequest request_of(const LoweredProblem& problem, const PlanOptions& options,
                       const std::string& planner);

}  // namespace tessera::solver

template <>
inline constexpr auto tessera::kEnumNames<tessera::solver::OnError> =
    tessera::enum_names<tessera::solver::OnError>({{tessera::solver::OnError::stop, "stop"},
                                                   {tessera::solver::OnError::go_on, "continue"}});

template <>
inline constexpr auto tessera::kEnumNames<tessera::solver::IlpForm> =
    tessera::enum_names<tessera::solver::IlpForm>({{tessera::solver::IlpForm::base, "base"},
                                                   {tessera::solver::IlpForm::paper, "paper"},
                                                   {tessera::solver::IlpForm::tightened,
                                                    "tightened"}});

/// The options of ts.plan and `tessera plan`.
template <>
struct tessera::Fields<tessera::solver::PlanOptions> {
  using Options = tessera::solver::PlanOptions;
  static constexpr auto list = std::tuple{
      OptionOnly{{.name = "planner",
                  .doc = "Planner's name, or a list: a planner, then heuristics; see `tessera help "
                         "planners`",
                  .option_type = "string|string[]",
                  .default_text = "\"exact\""},
                 OptionType::table},
      field<&Options::device_order, NotInFiles>(
          {.name = "device_order", .doc = "Devices by stage; default: searched"}),
      field<&Options::prefill_micro_batch_size, NotInFiles>(
          {.name = "prefill_micro_batch_size",
           .doc = "Requests per prefill micro-batch; default: searched",
           .unit = "requests",
           .min = 1,
           .max = 1e6}),
      field<&Options::decode_micro_batch_size, NotInFiles>(
          {.name = "decode_micro_batch_size",
           .doc = "Requests per decode micro-batch; default: searched",
           .unit = "requests",
           .min = 1,
           .max = 1e6}),
      OptionOnly{{.name = "stages",
                  .doc = "Of planner \"manual\": { { device =, bitwidths = { 8, ... } }, ... }",
                  .option_type = "table[]",
                  .as_flag = false},
                 OptionType::table},
      OptionOnly{{.name = "replicas",
                  .doc = "Pipelines to split the cluster into: a number, several to choose from, "
                         "or \"all\"; default: all, but 1 where a planner or anything of a "
                         "pipeline is given, or the problem says tensor_parallel, "
                         "use_all_devices or allow_empty_stage, or has a paper's preset",
                  .option_type = "integer|integer[]|string"},
                 OptionType::table},
      field<&Options::every_candidate, NotInFiles>(
          {.name = "every_candidate",
           .doc = "Plan each open choice for its own sake, not only until it is proven no better",
           .as_option = AsOption::defaulted}),
      field<&Options::cutoff, NotInFiles>(
          {.name = "cutoff",
           .doc = "Only plans with an objective below it are of interest",
           .unit = "s",
           .as_flag = false}),
      field<&Options::time_limit_s, NotInFiles>(
          {.name = "time_limit_s",
           .doc = "Wall-clock limit; the best plan so far is returned with its bound",
           .unit = "s",
           .min = 0,
           .max = 1e7,
           .default_text = "60"}),
      field<&Options::gap, NotInFiles>(
          {.name = "gap",
           .doc = "Relative gap between plan and bound at which to stop",
           .min = 0,
           .max = 1,
           .as_option = AsOption::defaulted}),
      field<&Options::threads, NotInFiles>(
          {.name = "threads",
           .doc = "Threads of planners that use several; 0: one per core",
           .min = 0,
           .max = 1024,
           .as_option = AsOption::defaulted}),
      field<&Options::group, NotInFiles>(
          {.name = "group",
           .doc = "Neighbouring layers decided together, by planners of the engine",
           .unit = "layers",
           .min = 1,
           .max = 1e6,
           .as_option = AsOption::defaulted}),
      field<&Options::on_error, NotInFiles>(
          {.name = "on_error",
           .doc = "When a heuristic fails by an error of its own: stop raises it (ts.plan returns "
                  "nil only for expected outcomes), continue goes on from the best plan so far, "
                  "with a note",
           .as_option = AsOption::defaulted,
           .as_flag = false}),
      field<&Options::seed, NotInFiles>({.name = "seed",
                                         .doc = "Seed of planners that draw",
                                         .min = 0,
                                         .max = kMaxExactInteger,
                                         .as_option = AsOption::defaulted}),
      OptionOnly{
          {.name = "on_incumbent",
           .doc = "Called with { objective, bound, gap } for each better plan; bound and gap "
                  "where there is a bound",
           .option_type = "fun(incumbent: table)"},
          OptionType::callback},
      OptionOnly{{.name = "start",
                  .doc = "Of planner \"ilp\": a plan of this problem that it starts from",
                  .option_type = "tessera.Plan",
                  .as_flag = false},
                 OptionType::table},
      field<&Options::ilp_form, NotInFiles>(
          {.name = "form",
           .doc = "Of planner \"ilp\": the programme with ranges, local search and a cutoff, as "
                  "it stands (base), or as the papers print it, eqs. (4)-(16); same optimum",
           .default_text = "\"tightened\"",
           .as_flag = false})};
};
