#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core_lua.h"
#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/grouping.h"
#include "tessera/solver/plan_text.h"

namespace tessera {

using solver_lua::LoweredProblem;
using solver_lua::push_why;

namespace {

const Plan& self(lua_State* L) { return *lua_kit::check_object<Plan>(L, 1, "plan"); }

int save(lua_State* L) {
  write_file(lua_kit::check_text(L, 2, "plan:save path"), json_text(to_json(self(L)), 1) + "\n");
  return 0;
}

/// explain(options): the library's, which re-solves; it is loaded when first asked for.
int explain(lua_State* L) {
  self(L);
  lua_settop(L, 2);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.explain");
  if (lua_kit::protected_call(L, 1, 1) != 0) lua_kit::throw_script_error(L);
  const lua_kit::LuaFunction explain_plan(L, -1, "tessera.explain");
  lua_pop(L, 1);
  explain_plan.call(2, 1);
  return 1;
}

int problem_of(lua_State* L) {
  solver_lua::push_lowered(L, solver::problem_from_json(*self(L).problem, "plan.problem"));
  return 1;
}

/// note(text): a copy of the plan that carries one more note.
int with_note(lua_State* L) {
  auto plan = std::make_shared<Plan>(self(L));
  plan->notes.push_back(lua_kit::check_utf8(L, 2, "plan:with_note text"));
  lua_kit::push_object<Plan>(L, std::move(plan));
  return 1;
}

void push_optional(lua_State* L, const std::optional<double>& value) {
  if (value) {
    lua_pushnumber(L, *value);
  } else {
    lua_pushnil(L);
  }
}

const OptionTable& stage_options() {
  static const OptionTable table{"plan stage",
                                 "One stage of a plan made by hand.",
                                 "",
                                 {{.name = "device",
                                   .type = OptionType::text,
                                   .doc = "Device name, \"T4-16G\" or \"T4-16G@node\"",
                                   .required = true},
                                  {.name = "bitwidths",
                                   .type = OptionType::integer_list,
                                   .doc = "One per layer of the stage",
                                   .unit = "bits",
                                   .min = 1,
                                   .max = 16,
                                   .required = true},
                                  {.name = "offload",
                                   .type = OptionType::table,
                                   .doc = "Shares on device, host and disk of weights, kv_cache "
                                          "and activations: { weights = { host = 1 }, ... }",
                                   .lua_type = "table"}}};
  return table;
}

/// Device name and bitwidths of the stage on top of the stack, a table or a stage of another plan.
std::pair<std::string, std::vector<std::int64_t>> stage_argument(lua_State* L,
                                                                 const std::string& where) {
  if (const auto* held = lua_kit::test_object<PlanStage>(L, -1)) {
    const PlanStage& stage = **held;
    return {stage.node.empty() ? stage.device : stage.device + "@" + stage.node,
            {stage.bitwidths.begin(), stage.bitwidths.end()}};
  }
  const lua_kit::Options stage(L, lua_gettop(L), stage_options(), where);
  return {stage.text("device"), stage.integers("bitwidths")};
}

const OptionTable& by_hand_options() {
  static const OptionTable table{"plan by hand",
                                 "Stages in pipeline order, and both micro-batch sizes.",
                                 "",
                                 {{.name = "stages",
                                   .type = OptionType::table,
                                   .doc = "{ { device =, bitwidths = { 8, ... } }, ... }",
                                   .lua_type = "table[]",
                                   .required = true},
                                  solver_lua::micro_batch_option("prefill_micro_batch_size"),
                                  solver_lua::micro_batch_option("decode_micro_batch_size"),
                                  {.name = "offload",
                                   .type = OptionType::table,
                                   .doc = "Of a plan that offloads: { gpu_batch_size =, "
                                          "host_memory_ratio =, host_attention_bytes_per_s = }",
                                   .lua_type = "table"}}};
  return table;
}

std::size_t bit_index(const solver::Instance& instance, std::int64_t bit,
                      const std::string& where) {
  const auto it = std::find(instance.bitwidths.begin(), instance.bitwidths.end(), bit);
  if (it == instance.bitwidths.end()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} is not one of the problem's bitwidths", where, bit), where);
  }
  return static_cast<std::size_t>(it - instance.bitwidths.begin());
}

std::string incumbent_text(const LoweredProblem& p, const solver::Incumbent& incumbent,
                           const std::string& planner) {
  solver::PlanResult result;
  result.status = solver::SolveStatus::feasible;
  result.candidate = incumbent.candidate;
  if (std::isfinite(incumbent.bound)) result.bound = incumbent.bound;
  return "interrupted; the best plan so far:\n" +
         solver::describe(solver::build_plan(p.problem, p.instance, result, planner, p.file));
}

std::unique_ptr<solver::Planner> planner_named(const std::string& name, const std::string& where) {
  for (auto& planner : solver::make_planners()) {
    if (planner->card().name == name) return std::move(planner);
  }
  throw Error(ErrorCode::not_found, where + ": no planner in C++ is called " + quote(name), where);
}

int push_result(lua_State* L, const LoweredProblem& p, const solver::PlanResult& result,
                const std::string& planner) {
  // A planner that knows nothing of side constraints may break them.
  if (result.candidate && !p.instance.rows.empty()) {
    if (const auto violation = solver::find_violation(p.instance, *result.candidate)) {
      return push_why(L, "infeasible", violation->message, violation->constraint);
    }
  }
  if (!result.candidate) {
    if (result.status == solver::SolveStatus::infeasible) {
      return push_why(
          L, "infeasible",
          result.violation ? result.violation->message : "no plan satisfies every constraint",
          result.violation ? result.violation->constraint : "", result.bound);
    }
    if (result.status == solver::SolveStatus::interrupted)
      return push_why(L, "interrupted", "interrupted before a plan was found", "", result.bound);
    return push_why(L, "time_limit", "no plan was found within the time limit; raise time_limit_s",
                    "", result.bound);
  }
  solver_lua::push_plan(L, p, result, planner);
  return 1;
}

solver::PlanResult price_by_hand(const LoweredProblem& p, solver::Candidate candidate) {
  solver::PlanResult result;
  result.violation = solver::find_violation(p.instance, candidate);
  if (result.violation) return result;
  result.status = solver::SolveStatus::feasible;
  result.candidate = std::move(candidate);
  return result;
}

}  // namespace

template <>
const lua_kit::ObjectType<Plan>& lua_kit::object_type<Plan>() {
  static const ObjectType<Plan> type{
      .name = "tessera.Plan",
      .doc =
          "Which layers run where, at which bitwidths, in which micro-batches, and what that "
          "costs.",
      .fields =
          {{"status", "string", "optimal (proven) or feasible",
            [](lua_State* L, const Plan& p) { push_text(L, to_string(p.status)); }},
           {"objective", "number", "What the planner minimised (s)",
            [](lua_State* L, const Plan& p) { lua_pushnumber(L, p.objective); }},
           {"bound", "number?", "No plan of the search is below it (s)",
            [](lua_State* L, const Plan& p) { push_optional(L, p.bound); }},
           {"gap", "number?", "(objective - bound) / objective",
            [](lua_State* L, const Plan& p) { push_optional(L, p.gap); }},
           {"solve_s", "number", "Time the planner took (s)",
            [](lua_State* L, const Plan& p) { lua_pushnumber(L, p.solve_s); }},
           {"planner", "string", "Who made it",
            [](lua_State* L, const Plan& p) { push_text(L, p.planner); }},
           {"device_order", "string[]", "Devices by stage",
            [](lua_State* L, const Plan& p) { push_texts(L, p.device_order); }},
           {"prefill_micro_batch_size", "integer", "Requests",
            [](lua_State* L, const Plan& p) { push_integer(L, p.prefill_micro_batch_size); }},
           {"decode_micro_batch_size", "integer", "Requests",
            [](lua_State* L, const Plan& p) { push_integer(L, p.decode_micro_batch_size); }},
           {"latency_s", "number", "Batch end to end, by the steady model (s)",
            [](lua_State* L, const Plan& p) { lua_pushnumber(L, p.latency_s); }},
           {"throughput_tok_s", "number", "Output tokens over latency_s (tok/s)",
            [](lua_State* L, const Plan& p) { lua_pushnumber(L, p.throughput_tok_s); }},
           {"omega", "number", "Quality lost, in the units of the problem",
            [](lua_State* L, const Plan& p) { lua_pushnumber(L, p.omega); }},
           {"mean_bitwidth", "number", "Over the layers (bits)",
            [](lua_State* L, const Plan& p) { lua_pushnumber(L, p.mean_bitwidth); }},
           {"provenance", "string", "Of the latencies: measured, fitted, published or modelled",
            [](lua_State* L, const Plan& p) { push_text(L, name_of(p.provenance)); }},
           {"error", "number?", "Held-out relative error of the latency, where known",
            [](lua_State* L, const Plan& p) { push_optional(L, p.error); }},
           {"stages", "tessera.Stage[]", "In pipeline order; none where there are replicas",
            solver_lua::push_stages},
           {"kv_bitwidth", "number?",
            "Of the KV cache (bits); absent for an instance, and where replicas differ",
            solver_lua::push_kv_bitwidth},
           {"kv_omega", "number?",
            "Share of omega that the KV cache's bitwidth has; absent as kv_bitwidth",
            solver_lua::push_kv_omega},
           {"candidates", "table[]?",
            "What came of each open choice: name, status, objective, latency_s, bound, "
            "message; absent where nothing was open",
            solver_lua::push_candidates},
           {"replicas", "tessera.Plan[]?",
            "Pipelines that share the batch; absent where there is one", solver_lua::push_replicas},
           {"devices", "integer[]?", "Of a replica: its devices in the whole cluster (0-based)",
            solver_lua::push_devices},
           {"offload", "table?",
            "Of a plan that offloads: gpu_batch_size, host_memory_ratio, "
            "host_attention_bytes_per_s",
            [](lua_State* L, const Plan& p) {
              push_json(L, p.offload ? to_json(*p.offload) : Json());
            }},
           {"notes", "string[]", "Fallbacks taken and what else matters",
            [](lua_State* L, const Plan& p) { push_texts(L, p.notes); }}},
      .methods = {{"explain", guarded<explain>,
                   "(options: tessera.options.plan.explain?): string|table",
                   "What binds it, what a little more hardware or a lower quality would buy, and "
                   "how sure the choice is; see plan:explain"},
                  {"save", guarded<save>, "(path: string)",
                   "Writes it with its problem as JSON, for ts.load_plan"},
                  {"problem", guarded<problem_of>, "(): tessera.Problem", "The problem it solves"},
                  {"with_note", guarded<with_note>, "(text: string): tessera.Plan",
                   "A copy with one more note"}},
      .summary = solver::summarise,
      .describe = solver::describe,
      .equal = [](const Plan& a, const Plan& b) { return to_json(a) == to_json(b); }};
  return type;
}

namespace solver_lua {

solver::PlanRequest request_from(const LoweredProblem& p, const lua_kit::Options& options) {
  solver::PlanRequest request;
  if (options.given("device_order"))
    request.order = solver::order_from_names(p.instance, options.texts("device_order"));
  const auto size = [&](const char* name) -> std::optional<std::int64_t> {
    if (!options.given(name)) return std::nullopt;
    return micro_batch_size(options, name, p.instance);
  };
  request.prefill_micro_batch_size = size("prefill_micro_batch_size");
  request.decode_micro_batch_size = size("decode_micro_batch_size");
  request.time_limit_s = std::min(options.number("time_limit_s"), lua_kit::interrupt::left_s());
  if (options.given("cutoff")) request.cutoff = options.number("cutoff");
  request.gap = options.number("gap");
  request.threads = static_cast<std::int32_t>(options.integer("threads"));
  request.seed = static_cast<std::uint64_t>(options.integer("seed"));
  request.stop = lua_kit::interrupt::flag();
  return request;
}

std::function<void(const solver::Incumbent&)> incumbent_handler(
    lua_State* L, std::shared_ptr<const LoweredProblem> problem, const lua_kit::Options& options,
    std::string planner) {
  std::shared_ptr<lua_kit::LuaFunction> callback;
  if (options.push("on_incumbent")) {
    callback = std::make_shared<lua_kit::LuaFunction>(L, -1, options.path_of("on_incumbent"));
  }
  lua_pop(L, 1);
  return [problem = std::move(problem), planner = std::move(planner),
          callback = std::move(callback)](const solver::Incumbent& incumbent) {
    lua_kit::interrupt::set_incumbent_text(incumbent_text(*problem, incumbent, planner));
    if (!callback) return;
    lua_State* state = callback->state();
    lua_createtable(state, 0, 3);
    const auto number = [&](const char* name, double value) {
      lua_pushnumber(state, value);
      lua_setfield(state, -2, name);
    };
    number("objective", incumbent.objective);
    if (std::isfinite(incumbent.bound)) {
      number("bound", incumbent.bound);
      number("gap", (incumbent.objective - incumbent.bound) /
                        std::max(std::abs(incumbent.objective), 1e-12));
    }
    callback->call(1, 0);
  };
}

void push_plan(lua_State* L, const LoweredProblem& problem, const solver::PlanResult& result,
               const std::string& planner) {
  lua_kit::push_object<Plan>(
      L, std::make_shared<Plan>(
             solver::build_plan(problem.problem, problem.instance, result, planner, problem.file)));
}

solver::Candidate candidate_argument(lua_State* L, int index, const solver::Instance& instance,
                                     const std::string& path) {
  const lua_kit::Options options(L, index, by_hand_options(), path);
  solver::Candidate candidate;
  candidate.prefill_micro_batch_size = options.integer("prefill_micro_batch_size");
  candidate.decode_micro_batch_size = options.integer("decode_micro_batch_size");
  options.push("stages");
  std::vector<std::string> names;
  candidate.first_layer.push_back(0);
  const std::string path_of_stages = options.path_of("stages");
  const int stages = lua_gettop(L);
  if (lua_kit::border(L, stages) == 0) {
    throw Error(ErrorCode::invalid_argument, path_of_stages + ": give a list of at least one stage",
                path_of_stages);
  }
  lua_kit::for_each_item(L, stages, path_of_stages, [&](std::size_t, const std::string& where) {
    const auto [device, bitwidths] = stage_argument(L, where);
    names.push_back(device);
    for (std::int64_t bit : bitwidths)
      candidate.bit.push_back(bit_index(instance, bit, where + ".bitwidths"));
    candidate.first_layer.push_back(candidate.bit.size());
  });
  lua_pop(L, 1);
  candidate.order = solver::order_from_names(instance, names);
  return candidate;
}

/// price(problem, { stages =, prefill_micro_batch_size =, decode_micro_batch_size =, offload = },
/// planner, solve_s): a checked plan or nil, why.
int price(lua_State* L) {
  const LoweredProblem& p = *lua_kit::check_object<LoweredProblem>(L, 1, "problem");
  const std::string planner = lua_kit::check_utf8(L, 3, "planner");
  const std::string path = planner == "manual" ? "ts.plan" : "planner " + quote(planner);
  solver::Candidate candidate = candidate_argument(L, 2, p.instance, path);
  const auto offload = offload_argument(L, 2, path);
  solver::PlanResult result;
  if (offload) {
    result.candidate = std::move(candidate);
  } else {
    result = price_by_hand(p, std::move(candidate));
  }
  result.solve_s = lua_isnoneornil(L, 4) ? 0 : lua_kit::check_number(L, 4, "solve_s", 0, 1e9);
  if (offload) return price_offload(L, p, *offload, std::move(result), planner);
  return push_result(L, p, result, planner);
}

/// check_options(problem, options): what every planner understands, checked for those in Lua.
int check_options(lua_State* L) {
  request_from(*lua_kit::check_object<LoweredProblem>(L, 1, "problem"),
               lua_kit::Options(L, 2, plan_options(), "ts.plan"));
  return 0;
}

int solve(lua_State* L) {
  const auto problem = lua_kit::check_object<LoweredProblem>(L, 1, "problem");
  const lua_kit::Options options(L, 2, plan_options(), "ts.plan");
  if (options.given("stages"))
    throw Error(ErrorCode::invalid_argument,
                options.path_of("stages") + ": only planner = \"manual\" takes stages",
                options.path_of("stages"));
  const std::string chosen = options.text("planner");
  solver::PlanRequest request = request_from(*problem, options);
  read_ilp_options(*problem, options, request);
  request.on_incumbent = incumbent_handler(L, problem, options, chosen);
  const auto planner = planner_named(chosen, options.path_of("planner"));
  const auto group = static_cast<std::size_t>(options.integer("group"));
  const solver::Instance& instance = problem->instance;
  if (group > 1 && (!instance.rows.empty() || request.start)) {
    throw Error(ErrorCode::invalid_argument,
                options.path_of("group") +
                    ": side constraints and a start decide single layers; "
                    "leave out group",
                options.path_of("group"));
  }
  const solver::PlanResult result = solver::plan_grouped(*planner, instance, request, group);
  if (result.stopped_by != solver::SolveStatus::interrupted)
    lua_kit::interrupt::set_incumbent_text("");
  return push_result(L, *problem, result, chosen);
}

/// planner_cards(): of the planners in C++, the default first.
int planner_cards(lua_State* L) {
  Json cards = Json::array();
  for (const auto& planner : solver::make_planners()) {
    const solver::PlannerCard card = planner->card();
    cards.push_back({{"name", card.name}, {"doc", card.doc}, {"source", card.source}});
  }
  lua_kit::push_json(L, cards);
  return 1;
}

int load_plan(lua_State* L) {
  const std::string path = lua_kit::check_text(L, 1, "ts.load_plan path");
  auto plan = std::make_shared<Plan>(plan_from_json(read_json_file(path), path));
  solver::problem_from_json(
      *plan->problem,
      path + ": problem");  // a plan whose problem is broken is refused here, not later
  lua_kit::push_object<Plan>(L, std::move(plan));
  return 1;
}

int check_plan(lua_State* L) {
  const auto violation = solver::check_plan(*lua_kit::check_object<Plan>(L, 1, "ts.check plan"));
  if (violation)
    return push_why(L, violation->constraint, violation->message, violation->constraint);
  lua_pushboolean(L, 1);
  return 1;
}

void register_plan(lua_State* L) {
  lua_kit::register_object<Plan>(L);
  auto& reference = core_lua::environment(L).reference;
  reference.add_object<Plan>();
  reference.add(plan_options());
  reference.add(lua_kit::FunctionCard{"ts.plan",
                                      "Plans a problem. What is not given is searched.",
                                      {{"problem", "tessera.Problem", "What is to be planned"}},
                                      "tessera.Plan?, tessera.Error?"});
  reference.add(lua_kit::FunctionCard{"ts.load_plan",
                                      "Reads a plan that plan:save wrote.",
                                      {{"path", "string", "File"}},
                                      "tessera.Plan"});
  reference.add(lua_kit::FunctionCard{"ts.check",
                                      "The independent checker: structure, memory, kernels, "
                                      "quality floor and every printed number.",
                                      {{"plan", "tessera.Plan", "Any plan"}},
                                      "true?, tessera.Error?"});
}

}  // namespace solver_lua
}  // namespace tessera
