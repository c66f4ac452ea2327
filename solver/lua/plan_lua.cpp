#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core_lua.h"
#include "fleet_lua.h"
#include "plan_values.h"
#include "script_planners.h"
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
#include "tessera/solver/instance/grouping.h"
#include "tessera/solver/plan/build_plan.h"
#include "tessera/solver/plan/check_plan.h"
#include "tessera/solver/plan/place_plan.h"
#include "tessera/solver/plan/plan_text.h"
#include "tessera/solver/planning/planners.h"

namespace tessera {

using solver::LoweredProblem;
using solver::PipelinePlan;
using solver::Plan;
using solver::summary_of;
using solver_lua::push_why;

namespace {

const Plan& self(lua_State* L) { return *lua_kit::check_object<Plan>(L, 1, "plan"); }

int save(lua_State* L) {
  write_file(lua_kit::check_text(L, 2, "plan:save path"), json_text(to_json(self(L)), 1) + "\n");
  return 0;
}

// A method of the library's, the plan and its arguments on the stack; loaded when first asked for.
int call_library(lua_State* L, int num_arguments, const char* module, int num_results = 1) {
  self(L);
  lua_settop(L, num_arguments);
  lua_getglobal(L, "require");
  lua_pushstring(L, module);
  if (lua_kit::protected_call(L, 1, 1) != 0) lua_kit::throw_script_error(L);
  const lua_kit::LuaFunction method(L, -1, module);
  lua_pop(L, 1);
  method.call(num_arguments, num_results);
  return num_results;
}

/// explain(options): the library's, which re-solves.
int explain(lua_State* L) { return call_library(L, 2, "tessera.planning.explain"); }

/// plan:quality(model, options), which is plan.quality(plan, model, options): the library's, which
/// runs the model. Argument 1 is the record that is called.
int measure_quality(lua_State* L) {
  lua_remove(L, 1);
  return call_library(L, 3, "tessera.models.plan_quality");
}

int quality_text(lua_State* L) {
  lua_kit::push_field(L, 1, "text", "plan.quality");
  return 1;
}

}  // namespace

void solver_lua::push_quality(lua_State* L, const std::optional<Quality>& quality) {
  lua_newtable(L);
  if (quality) lua_kit::set_fields(L, *quality);
  lua_kit::set_text(L, "grade", quality ? name_of(quality->grade) : name_of(QualityGrade::unknown));
  lua_kit::set_text(L, "text", quality ? in_words(*quality) : "an instance knows no model");
  if (luaL_newmetatable(L, "tessera.PlanQuality") != 0) {
    lua_pushcfunction(L, lua_kit::guarded<measure_quality>);
    lua_setfield(L, -2, "__call");
    lua_pushcfunction(L, lua_kit::guarded<quality_text>);
    lua_setfield(L, -2, "__tostring");
  }
  lua_setmetatable(L, -2);
}

namespace {

/// export(kind, folder, options): the library's, which writes what starts servers.
int export_plan(lua_State* L) { return call_library(L, 4, "tessera.launch", 2); }

int problem_of(lua_State* L) {
  const solver::PlanSummary& plan = summary_of(self(L));
  solver_lua::push_problem(L, solver::open_again(plan.problem, plan.left_open));
  return 1;
}

/// note(text): a copy of the plan that carries one more note.
int with_note(lua_State* L) {
  Plan plan = self(L);
  summary_of(plan).notes.push_back(lua_kit::check_utf8(L, 2, "plan:with_note text"));
  solver_lua::push_plan(L, std::move(plan));
  return 1;
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
                                   .lua_type = "table"},
                                  {.name = "attention",
                                   .type = OptionType::table,
                                   .doc = "KV heads of it on another device, with their cache: { "
                                          "device = \"T4-16G\", ratio = 0.5 }",
                                   .lua_type = "table"}}};
  return table;
}

/// Device name and bitwidths of the stage on top of the stack, a table or a stage of another plan.
std::pair<std::string, std::vector<std::int64_t>> stage_argument(lua_State* L,
                                                                 const std::string& where) {
  if (const auto* held = lua_kit::test_object<solver::PlanStage>(L, -1)) {
    const solver::PlanStage& stage = **held;
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
                                   .doc = "{ { device =, bitwidths = { 8, ... }, attention = { "
                                          "device =, ratio = } }, ... }",
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
    refuse(where, "{} is not one of the problem's bitwidths", bit);
  }
  return static_cast<std::size_t>(it - instance.bitwidths.begin());
}

int push_result(lua_State* L, const LoweredProblem& p, const solver::PlanResult& result,
                const std::string& planner) {
  // A planner that knows nothing of side constraints may break them.
  if (result.candidate && !p.instance().rows.empty()) {
    if (const auto violation = solver::find_violation(p.instance(), *result.candidate)) {
      return push_why(L, "infeasible", violation->message, violation->constraint);
    }
  }
  if (!result.candidate) return solver_lua::push_outcome(L, solver::why_none(result));
  PipelinePlan plan = solver::build_plan(p, result, planner);
  // Who attends to heads of a stage is in no instance, and so its memory is checked of the plan.
  if (p.batch() != nullptr && !p.batch()->attention.empty()) {
    if (const auto violation = solver::check_plan(plan)) {
      return push_why(L, "infeasible", violation->message, violation->constraint);
    }
  }
  solver_lua::push_plan(L, std::move(plan));
  return 1;
}

solver::PlanResult price_by_hand(const LoweredProblem& p, solver::Candidate candidate) {
  solver::PlanResult result;
  result.violation = solver::find_violation(p.instance(), candidate);
  if (result.violation) return result;
  result.status = solver::SolveStatus::feasible;
  result.candidate = std::move(candidate);
  return result;
}

/// Of every plan, as its file has them.
void push_unused_devices(lua_State* L, const Plan& plan) {
  const solver::BatchProblem* batch = summary_of(plan).problem.batch();
  if (batch == nullptr) return lua_pushnil(L);
  std::vector<std::string> names;
  for (const std::size_t i : solver::unused_devices(plan)) {
    const ClusterDevice& slot = batch->cluster.devices[i];
    names.push_back(slot.device.name + "@" + batch->cluster.nodes[slot.node_index].name);
  }
  lua_kit::push_texts(L, names);
}

void push_placement(lua_State* L, const Plan& plan) {
  if (summary_of(plan).problem.batch() == nullptr) return lua_pushnil(L);
  lua_kit::push_value(L, solver::placement_of(plan));
}

void push_pipelines(lua_State* L, const Plan& plan) {
  lua_kit::push_json(L, solver::pipelines_json(plan));
}

std::vector<lua_kit::ObjectField<Plan>> file_fields() {
  constexpr auto show = [](const Plan& plan, auto&& read) {
    if (const PipelinePlan* pipeline = std::get_if<PipelinePlan>(&plan)) {
      read(*pipeline);
    } else {
      read(shown_pipeline(std::get<solver::ReplicatedPlan>(plan)));
    }
  };
  return lua_kit::fields_shown<Plan, PipelinePlan, show>();
}

std::vector<lua_kit::ObjectField<Plan>> other_plan_fields() {
  return {
      {"kv_bitwidth", "integer?",
       "Of the KV cache (bits); absent for an instance, and where replicas differ",
       solver_lua::push_kv_bitwidth},
      {"kv_omega", "number?",
       "Share of omega that the KV cache's bitwidth has; absent as kv_bitwidth",
       solver_lua::push_kv_omega},
      {"candidates", "table[]?",
       "What came of each open choice: name, status, objective, latency_s, bound, message; "
       "absent where nothing was open",
       solver_lua::push_candidates},
      {"quality",
       "tessera.PlanQuality|fun(self: tessera.Plan, model: tessera.LanguageModel|string, "
       "options: table): table",
       "What it does to the model, from published or own measurements; called, as "
       "plan:quality(model, options), it is measured on a text",
       [](lua_State* L, const Plan& plan) {
         solver_lua::push_quality(L, summary_of(plan).quality);
       }},
      {"placement", "table?",
       "Where its layers lie: model, num_layers, nodes (names), engines = { { role, kv_bitwidth, "
       "stages = { { device, node_index, gpus, first_layer, num_layers, bitwidths } } } }, with "
       "0-based nodes, GPUs of a node and layers; ranks go by stages, then by gpus. Absent for an "
       "instance",
       push_placement},
      {"unused_devices", "string[]?",
       "Devices that run nothing of it, with their nodes (\"L4@a\"); absent for an instance",
       push_unused_devices},
      {"pipelines", "table[]",
       "Its pipelines, one or a replica each, as in its file: device_order, both micro-batch "
       "sizes, batch_size (its share), latency_s, throughput_tok_s, mean_bitwidth, provenance, "
       "stages with device_index into its cluster",
       push_pipelines},
      {"replicas", "tessera.Plan[]?",
       "Pipelines that share the batch, as plans; absent where there is one",
       solver_lua::push_replicas}};
}

}  // namespace

template <>
const lua_kit::ObjectType<Plan>& lua_kit::object_type<Plan>() {
  static const ObjectType<Plan> type{
      .name = "tessera.Plan",
      .doc =
          "Which layers run where, at which bitwidths, in which micro-batches, and what that "
          "costs.",
      .fields = joined<Plan>({file_fields(), other_plan_fields()}),
      .methods = {{"explain", guarded<explain>,
                   "(options: tessera.options.plan.explain?): string|table",
                   "What binds it, what a little more hardware or a lower quality would buy, and "
                   "how sure the choice is; see plan:explain"},
                  {"export", guarded<export_plan>,
                   "(kind: \"vllm\"|\"llama.cpp\"|\"json\", folder: string, options: "
                   "tessera.options.plan.export?): table?, tessera.Error?",
                   "Writes what starts servers that run it; see plan:export"},
                  {"save", guarded<save>, "(path: string)",
                   "Writes it with its problem as JSON, for ts.load_plan"},
                  {"problem", guarded<problem_of>, "(): tessera.Problem", "The problem it solves"},
                  {"with_note", guarded<with_note>, "(text: string): tessera.Plan",
                   "A copy with one more note"}},
      .summary = solver::summarise,
      .describe = solver::describe,
      .equal = [](const Plan& a, const Plan& b) { return a == b; }};
  return type;
}

namespace solver_lua {

std::string incumbent_text(const LoweredProblem& p, const solver::Incumbent& incumbent,
                           const std::string& planner) {
  solver::PlanResult result;
  result.status = solver::SolveStatus::feasible;
  result.candidate = incumbent.candidate;
  if (std::isfinite(incumbent.bound)) result.bound = incumbent.bound;
  return "interrupted; the best plan so far:\n" +
         solver::describe(solver::build_plan(p, result, planner));
}

void push_plan(lua_State* L, Plan plan) {
  lua_kit::push_object<Plan>(L, std::make_shared<Plan>(std::move(plan)));
}

void push_plan(lua_State* L, const LoweredProblem& problem, const solver::PlanResult& result,
               const std::string& planner) {
  push_plan(L, solver::build_plan(problem, result, planner));
}

const PipelinePlan& pipeline_of(const Plan& plan, const std::string& where) {
  if (const PipelinePlan* pipeline = std::get_if<PipelinePlan>(&plan)) return *pipeline;
  refuse(where, "a plan with replicas is a pipeline for each of them; give one of plan.replicas");
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
    refuse(path_of_stages, "give a list of at least one stage");
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
  const auto problem = lua_kit::check_object<solver::OpenProblem>(L, 1, "problem");
  const std::string planner = lua_kit::check_utf8(L, 3, "planner");
  const std::string path = planner == "manual" ? "ts.plan" : "planner " + quote(planner);
  auto [p, candidate, notes] = decision_argument(L, 2, problem->first, path);
  const auto offload = offload_argument(L, 2, path);
  solver::PlanResult result;
  if (offload) {
    result.candidate = std::move(candidate);
  } else {
    result = price_by_hand(p, std::move(candidate));
  }
  result.notes = std::move(notes);
  result.solve_s = lua_isnoneornil(L, 4) ? 0 : lua_kit::check_number(L, 4, "solve_s", 0, 1e9);
  if (offload) return price_offload(L, p, *offload, std::move(result), planner);
  return push_result(L, p, result, planner);
}

/// planner_cards(): of the planners in C++, the default first.
int planner_cards(lua_State* L) {
  lua_kit::push_cards(L, solver::planners().cards());
  return 1;
}

int load_plan(lua_State* L) {
  const std::string path = lua_kit::check_text(L, 1, "ts.load_plan path");
  const Json json = read_json_file(path);
  if (solver::is_solved_fleet(json)) {
    lua_kit::push_object<solver::SolvedFleet>(
        L, std::make_shared<const solver::SolvedFleet>(solver::solved_fleet_from_json(json, path)));
  } else {
    push_plan(L, solver::plan_from_json(json, path));
  }
  return 1;
}

/// plan_text(plan): as plan:save writes it.
int plan_text(lua_State* L) {
  lua_kit::push_text(L, json_text(to_json(self(L)), 1) + "\n");
  return 1;
}

int check_plan(lua_State* L) {
  if (lua_kit::test_object<solver::SolvedFleet>(L, 1) != nullptr) return check_solved_fleet(L);
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
                                      "Reads a plan or a fleet that :save wrote.",
                                      {{"path", "string", "File"}},
                                      "tessera.Plan|tessera.Fleet"});
  reference.add(
      lua_kit::FunctionCard{"ts.check",
                            "The independent checker: structure, memory, kernels, "
                            "quality floor and every printed number; of a fleet "
                            "nodes, demand, money and the loss of every node.",
                            {{"plan", "tessera.Plan|tessera.Fleet", "Any plan, or fleet"}},
                            "true?, tessera.Error?"});
}

}  // namespace solver_lua
}  // namespace tessera
