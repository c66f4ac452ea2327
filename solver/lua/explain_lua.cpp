// What the Lua library builds plan:explain from.

#include <map>

#include "problem_lua.h"
#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/exact/exact_planner.h"
#include "tessera/solver/ilp/ilp_planner.h"
#include "tessera/solver/plan/binding.h"
#include "tessera/solver/plan/build_plan.h"
#include "tessera/solver/plan/plan_text.h"
#include "tessera/solver/plan/what_if.h"

namespace tessera::solver_lua {
namespace {

const solver::Plan& plan_argument(lua_State* L, int index) {
  return *lua_kit::check_object<solver::Plan>(L, index, "plan");
}

std::map<std::string, double> rates(lua_State* L, const lua_kit::Options& options,
                                    const char* name) {
  std::map<std::string, double> found;
  if (options.push(name)) {
    const Json table = lua_kit::json_from_lua(L, lua_gettop(L), options.path_of(name));
    if (!table.is_object()) {
      refuse(options.path_of(name), "a table from names to numbers belongs here");
    }
    JsonFields fields(table, options.path_of(name));
    for (const auto& [key, value] : table.items()) {
      found[key] = fields.number(key.c_str(), 0, 1e15);
    }
  }
  lua_pop(L, 1);
  return found;
}

const OptionTable& upgrade_options() {
  static const OptionTable table{"upgraded",
                                 "A little more hardware.",
                                 "tessera.Problem",
                                 {{.name = "memory_bytes",
                                   .type = OptionType::table,
                                   .doc = "More memory by device type",
                                   .unit = "bytes",
                                   .lua_type = "table<string, number>"},
                                  {.name = "link_bytes_per_s",
                                   .type = OptionType::table,
                                   .doc = "More bandwidth by name of link_names",
                                   .unit = "bytes/s",
                                   .lua_type = "table<string, number>"}}};
  return table;
}

const OptionTable& perturbed_options() {
  static const OptionTable table{"perturbed",
                                 "How a plan and the best plan do when latencies are off.",
                                 "table",
                                 {{.name = "error",
                                   .doc = "Spread of the log of the factors",
                                   .min = 0,
                                   .max = 10,
                                   .required = true},
                                  {.name = "seed",
                                   .type = OptionType::integer,
                                   .doc = "Of the factors",
                                   .min = 0,
                                   .max = kMaxExactInteger,
                                   .required = true},
                                  {.name = "prefill_factor",
                                   .doc = "Over all prefill latencies, beside the drawn ones",
                                   .default_text = "1",
                                   .min = 1e-6,
                                   .max = 1e6},
                                  {.name = "decode_factor",
                                   .doc = "Over all decode latencies, likewise",
                                   .default_text = "1",
                                   .min = 1e-6,
                                   .max = 1e6},
                                  {.name = "near_ratio",
                                   .doc = "Better plans by no more than this are not searched for",
                                   .min = 0,
                                   .max = 1,
                                   .required = true},
                                  {.name = "time_limit_s",
                                   .doc = "Of the search for the best plan",
                                   .unit = "s",
                                   .min = 0,
                                   .max = 1e7,
                                   .required = true}}};
  return table;
}

// The stages of a candidate that hold layers.
void push_shape(lua_State* L, const solver::Instance& instance,
                const solver::Candidate& candidate) {
  Json stages = Json::array();
  for (std::size_t k = 0; k < candidate.order.size(); ++k) {
    const std::size_t first = candidate.first_layer[k], end = candidate.first_layer[k + 1];
    if (first == end) continue;
    double bits = 0;
    for (std::size_t i = first; i < end; ++i) bits += instance.bitwidths[candidate.bit[i]];
    stages.push_back({{"device", instance.groups[candidate.order[k]].name},
                      {"num_layers", end - first},
                      {"mean_bitwidth", bits / static_cast<double>(end - first)}});
  }
  lua_kit::push_json(L, stages);
}

}  // namespace

int explain_briefly(lua_State* L) {
  lua_kit::push_text(L, solver::explain(plan_argument(L, 1)));
  return 1;
}

/// bindings(plan): { { kind, text, stage, phase, seconds, left_bytes, used_ratio }, ... }.
int bindings(lua_State* L) {
  const solver::PipelinePlan& plan = pipeline_of(plan_argument(L, 1), "plan");
  const solver::Instance& instance = plan.problem.instance();
  const solver::Candidate candidate = solver::candidate_of(instance, plan);
  if (candidate.bit.size() != instance.num_layers()) {
    refuse("plan", "its stages do not hold every layer");
  }
  lua_newtable(L);
  int n = 0;
  std::vector<solver::Binding> found = solver::find_bindings(instance, candidate);
  if (auto host = solver::host_binding(plan)) found.push_back(*std::move(host));
  for (const solver::Binding& binding : found) {
    lua_newtable(L);
    lua_kit::set_text(L, "kind", binding.kind);
    lua_kit::set_text(L, "text", binding.text);
    if (binding.stage) lua_kit::set_number(L, "stage", static_cast<double>(*binding.stage));
    if (!binding.phase.empty()) {
      lua_kit::set_text(L, "phase", binding.phase);
      lua_kit::set_number(L, "seconds", binding.seconds);
    }
    if (binding.phase.empty() || binding.kind == "host")
      lua_kit::set_number(L, "used_ratio", binding.used_ratio);
    if (binding.kind == "memory") lua_kit::set_number(L, "left_bytes", binding.left_bytes);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

int link_names(lua_State* L) {
  lua_kit::push_texts(L, solver::link_names(problem_argument(L, 1).first.problem()));
  return 1;
}

/// upgraded(problem, { memory_bytes = { [type] = more }, link_bytes_per_s = { [link] = more } })
int upgraded(lua_State* L) {
  const solver::OpenProblem& p = problem_argument(L, 1);
  const lua_kit::Options options(L, 2, upgrade_options(), "upgraded");
  solver::Upgrade upgrade;
  upgrade.memory_bytes = rates(L, options, "memory_bytes");
  upgrade.link_bytes_per_s = rates(L, options, "link_bytes_per_s");
  push_problem(L, {solver::LoweredProblem(solver::upgraded(p.first, upgrade)), p.choices});
  return 1;
}

/// perturbed(problem, plan, { error =, seed =, near_ratio =, time_limit_s = }): objectives of the
/// plan and of the best plan when every latency is off by a factor; { plan_objective, objective,
/// bound, status, stages }, where stages are those of the best plan, { device, num_layers,
/// mean_bitwidth } each. Infeasible: the plan is within near_ratio of the best, which takes less to
/// prove than what the best is.
int perturbed(lua_State* L) {
  const solver::Instance& instance = problem_argument(L, 1).first.instance();
  const solver::Candidate candidate =
      solver::candidate_of(instance, pipeline_of(plan_argument(L, 2), "plan"));
  const lua_kit::Options options(L, 3, perturbed_options(), "perturbed");
  solver::LatencyFactors factors = solver::draw_latency_factors(
      instance, options.number("error"), static_cast<std::uint64_t>(options.integer("seed")));
  for (double& factor : factors.prefill) factor *= options.number("prefill_factor");
  for (double& factor : factors.decode) factor *= options.number("decode_factor");
  const solver::Instance changed = solver::with_latency_factors(instance, std::move(factors));
  const double plan_objective = solver::evaluate(changed, candidate).objective;
  solver::PlanRequest request;
  if (plan_objective > 0) request.cutoff = plan_objective / (1 + options.number("near_ratio"));
  request.time_limit_s = options.number("time_limit_s");
  request.stop = lua_kit::interrupt::flag();
  const auto planner =
      changed.rows.empty() ? solver::make_exact_planner() : solver::make_ilp_planner();
  const solver::PlanResult best = planner->plan(changed, request);
  lua_createtable(L, 0, 4);
  lua_kit::set_number(L, "plan_objective", plan_objective);
  if (best.candidate) {
    lua_kit::set_number(L, "objective", best.objective);
    push_shape(L, instance, *best.candidate);
    lua_setfield(L, -2, "stages");
  }
  if (best.bound) lua_kit::set_number(L, "bound", *best.bound);
  lua_kit::set_text(L, "status", name_of(best.status));
  return 1;
}

}  // namespace tessera::solver_lua
