#include <fmt/format.h>

#include <algorithm>

#include "core_lua.h"
#include "indicator_lua.h"
#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/partition.h"

namespace tessera {

using solver_lua::LoweredProblem;

namespace {

std::vector<std::int32_t> bitwidths_of(const lua_kit::Options& options) {
  std::vector<std::int32_t> bitwidths;
  for (std::int64_t bit : options.integers("bitwidths"))
    bitwidths.push_back(static_cast<std::int32_t>(bit));
  std::sort(bitwidths.begin(), bitwidths.end());
  if (bitwidths.empty() ||
      std::adjacent_find(bitwidths.begin(), bitwidths.end()) != bitwidths.end()) {
    throw Error(ErrorCode::invalid_argument,
                options.path_of("bitwidths") + ": give at least one bitwidth, each once",
                options.path_of("bitwidths"));
  }
  return bitwidths;
}

template <class Argument>
auto read(lua_State* L, const lua_kit::Options& options, const char* name, Argument argument) {
  if (!options.push(name)) {
    lua_pop(L, 1);
    throw Error(ErrorCode::invalid_argument, options.path_of(name) + " is missing",
                options.path_of(name));
  }
  auto value = argument(L, lua_gettop(L), options.path_of(name));
  lua_pop(L, 1);
  return value;
}

void set_quality(lua_State* L, const lua_kit::Options& options, solver::Problem& problem) {
  static const OptionTable table{"ts.problem.quality",
                                 "A quality floor instead of a price on omega.",
                                 "",
                                 {{.name = "at_least",
                                   .type = OptionType::text,
                                   .doc = "Baseline whose omega may not be exceeded"},
                                  {.name = "max_omega",
                                   .doc = "Largest sum of omega, in the plan's units",
                                   .min = 0,
                                   .max = 1e300}}};
  if (!options.push("quality")) {
    lua_pop(L, 1);
    return;
  }
  const lua_kit::Options quality(L, lua_gettop(L), table, options.path_of("quality"));
  if (quality.given("at_least") == quality.given("max_omega")) {
    throw Error(
        ErrorCode::invalid_argument,
        options.path_of("quality") + ": give either at_least = \"uniform\" or max_omega = x",
        options.path_of("quality"));
  }
  if (quality.given("at_least")) problem.quality_at_least = quality.text("at_least");
  if (quality.given("max_omega")) problem.max_omega = quality.number("max_omega");
  lua_pop(L, 1);
  // planner.md: the quality-constrained form has theta = 0 unless the script prices omega as well.
  if (!options.given("theta")) problem.theta = 0;
}

solver::ServingProblem serving_from(lua_State* L, const lua_kit::Options& options) {
  solver::ServingProblem serving;
  serving.model = *read(L, options, "model", core_lua::model_argument);
  serving.cluster = *read(L, options, "cluster", core_lua::cluster_argument);
  serving.workload = *read(L, options, "workload", core_lua::workload_argument);
  serving.bitwidths = bitwidths_of(options);
  serving.kernel_set =
      cost::find_kernel_set(options.text("kernel_set"), core_lua::environment(L).folders);
  serving.memory = options.choice("memory") == "llm-pq" ? cost::MemoryPreset::llm_pq
                                                        : cost::MemoryPreset::physical;
  serving.kv_bitwidth = options.number("kv_bitwidth");
  options.push("indicator");
  serving.indicator = *indicator_lua::indicator_argument(
      L, lua_gettop(L), options.path_of("indicator"), serving.model.name,
      static_cast<std::size_t>(serving.model.num_layers), serving.bitwidths);
  lua_pop(L, 1);
  const double longest =
      static_cast<double>(serving.workload.max_prompt_tokens + serving.workload.max_output_tokens);
  if (serving.model.max_context_tokens > 0 &&
      longest > static_cast<double>(serving.model.max_context_tokens)) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("{}: {} prompt and {} output tokens are more than the {} that {} can "
                            "attend to; shorten them",
                            options.path_of("workload"), serving.workload.max_prompt_tokens,
                            serving.workload.max_output_tokens, serving.model.max_context_tokens,
                            serving.model.name),
                options.path_of("workload"));
  }
  return serving;
}

void read_instance(const lua_kit::Options& options, solver::Problem& problem) {
  for (const char* other : {"model", "cluster", "workload", "bitwidths", "indicator", "memory",
                            "kernel_set", "kv_bitwidth"}) {
    if (options.given(other)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: an instance file already says it; give either instance or {}",
                              options.path_of(other), other),
                  options.path_of(other));
    }
  }
  problem.instance_path = options.text("instance");
  problem.instance = std::make_shared<const Json>(read_json_file(problem.instance_path));
  // The file's own settings hold unless the script says otherwise.
  problem.allow_empty_stage =
      options.given("allow_empty_stage") ? options.boolean("allow_empty_stage") : true;
  if (!options.given("theta") && problem.quality_at_least.empty() && !problem.max_omega) {
    problem.theta =
        JsonFields(*problem.instance, problem.instance_path).number("theta", 0, 1e300, 1);
  }
}

std::shared_ptr<const LoweredProblem> lowered(solver::Problem problem) {
  auto result = std::make_shared<LoweredProblem>();
  result->instance = solver::lower(problem);
  result->problem = std::move(problem);
  return result;
}

const LoweredProblem& self(lua_State* L) {
  return *lua_kit::check_object<LoweredProblem>(L, 1, "problem");
}

/// with(changes): the same problem with some options changed. The option table it was made from
/// travels as its environment.
int with(lua_State* L) {
  const LoweredProblem& original = self(L);
  static const OptionTable table = [] {
    OptionTable t = solver_lua::problem_options();
    t.name = "problem:with";
    t.doc = "A copy of the problem with these options changed.";
    for (OptionSpec& spec : t.options) {
      spec.required = false;
      spec.default_text = {};
    }
    return t;
  }();
  const lua_kit::Options options(L, 2, table, "problem:with");
  solver::Problem changed = original.problem;
  if (options.given("objective"))
    changed.objective = options.choice("objective") == "paper" ? solver::Objective::paper
                                                               : solver::Objective::steady;
  if (options.given("theta")) changed.theta = options.number("theta");
  if (options.given("theta_unit"))
    changed.theta_unit = options.choice("theta_unit") == "ms_per_raw_omega"
                             ? solver::ThetaUnit::ms_per_raw_omega
                             : solver::ThetaUnit::s_per_normalised_omega;
  if (options.given("allow_empty_stage"))
    changed.allow_empty_stage = options.boolean("allow_empty_stage");
  if (options.given("quality")) {
    changed.max_omega.reset();
    changed.quality_at_least.clear();
    set_quality(L, options, changed);
  }
  if (changed.serving && !options.given("instance")) {
    solver::ServingProblem& s = *changed.serving;
    const bool layers_change = options.given("model") || options.given("bitwidths");
    if (options.given("model")) s.model = *read(L, options, "model", core_lua::model_argument);
    if (options.given("cluster"))
      s.cluster = *read(L, options, "cluster", core_lua::cluster_argument);
    if (options.given("workload"))
      s.workload = *read(L, options, "workload", core_lua::workload_argument);
    if (options.given("bitwidths")) s.bitwidths = bitwidths_of(options);
    if (options.given("kernel_set"))
      s.kernel_set =
          cost::find_kernel_set(options.text("kernel_set"), core_lua::environment(L).folders);
    if (options.given("memory"))
      s.memory = options.choice("memory") == "llm-pq" ? cost::MemoryPreset::llm_pq
                                                      : cost::MemoryPreset::physical;
    if (options.given("kv_bitwidth")) s.kv_bitwidth = options.number("kv_bitwidth");
    if (options.given("indicator") || (layers_change && s.indicator.kind == "constant")) {
      options.push("indicator");
      s.indicator = *indicator_lua::indicator_argument(
          L, lua_gettop(L), options.path_of("indicator"), s.model.name,
          static_cast<std::size_t>(s.model.num_layers), s.bitwidths);
      lua_pop(L, 1);
    }
  } else {
    options.refuse_others({"objective", "theta", "theta_unit", "quality", "allow_empty_stage"},
                          "it cannot be changed here; make another ts.problem");
  }
  lua_kit::push_object<LoweredProblem>(L, lowered(std::move(changed)));
  return 1;
}

int evaluate(lua_State* L) {
  const LoweredProblem& p = self(L);
  const solver::Candidate candidate =
      solver_lua::candidate_argument(L, 2, p.instance, "problem:evaluate");
  const auto violation = solver::find_violation(p.instance, candidate);
  lua_createtable(L, 0, 6);
  lua_pushboolean(L, !violation);
  lua_setfield(L, -2, "fits");
  if (violation) {
    lua_kit::push_text(L, violation->constraint);
    lua_setfield(L, -2, "constraint");
    lua_kit::push_text(L, violation->message);
    lua_setfield(L, -2, "message");
    if (violation->constraint != "memory" && violation->constraint != "quality") return 1;
  }
  const solver::Evaluation e = solver::evaluate(p.instance, candidate);
  const auto number = [L](const char* name, double value) {
    lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
  };
  number("objective", e.objective);
  number("latency_s", e.latency_s);
  number("omega", e.omega);
  return 1;
}

int micro_batch_sizes(lua_State* L) {
  const auto sizes = solver::useful_micro_batch_sizes(self(L).instance);
  lua_kit::push_numbers(L, {sizes.begin(), sizes.end()});
  return 1;
}

const OptionTable& partition_options() {
  static const OptionTable table{"problem:balanced_partition",
                                 "Layers per stage that minimise the largest stage's share of the "
                                 "latency, at one bitwidth, within memory.",
                                 "integer[]?",
                                 {{.name = "device_order",
                                   .type = OptionType::text_list,
                                   .doc = "Devices by position",
                                   .required = true},
                                  {.name = "bitwidth",
                                   .type = OptionType::integer,
                                   .doc = "Of every layer",
                                   .unit = "bits",
                                   .min = 1,
                                   .max = 16,
                                   .required = true},
                                  {.name = "prefill_micro_batch_size",
                                   .type = OptionType::integer,
                                   .doc = "Requests per prefill micro-batch",
                                   .min = 1,
                                   .max = 1e6,
                                   .required = true},
                                  {.name = "decode_micro_batch_size",
                                   .type = OptionType::integer,
                                   .doc = "Requests per decode micro-batch",
                                   .min = 1,
                                   .max = 1e6,
                                   .required = true}}};
  return table;
}

int balanced_partition(lua_State* L) {
  const LoweredProblem& p = self(L);
  const lua_kit::Options options(L, 2, partition_options(), "problem:balanced_partition");
  const auto& bits = p.instance.bitwidths;
  const auto bit = std::find(bits.begin(), bits.end(), options.integer("bitwidth"));
  if (bit == bits.end())
    throw Error(ErrorCode::invalid_argument,
                options.path_of("bitwidth") + ": not one of the problem's bitwidths",
                options.path_of("bitwidth"));
  for (const char* name : {"prefill_micro_batch_size", "decode_micro_batch_size"}) {
    if (options.integer(name) > p.instance.batch_size)
      throw Error(ErrorCode::out_of_range,
                  fmt::format("{}: {} is more than the batch of {}", options.path_of(name),
                              options.integer(name), p.instance.batch_size),
                  options.path_of(name));
  }
  const auto counts = solver::balanced_partition(
      p.instance, solver::order_from_names(p.instance, options.texts("device_order")),
      static_cast<std::size_t>(bit - bits.begin()), options.integer("prefill_micro_batch_size"),
      options.integer("decode_micro_batch_size"));
  if (!counts) return 0;
  lua_kit::push_numbers(L, {counts->begin(), counts->end()});
  return 1;
}

/// device_orders(limit): distinct orders of all devices, in lexicographic order of their groups, at
/// most `limit`.
int device_orders(lua_State* L) {
  const LoweredProblem& p = self(L);
  const auto limit = lua_isnoneornil(L, 2)
                         ? 1000
                         : lua_kit::check_integer(L, 2, "problem:device_orders limit", 1, 1e6);
  std::vector<std::size_t> order;
  for (std::size_t g = 0; g < p.instance.groups.size(); ++g) {
    order.insert(order.end(), static_cast<std::size_t>(p.instance.groups[g].count), g);
  }
  lua_newtable(L);
  int n = 0;
  do {
    std::vector<std::string> names;
    for (std::size_t g : order) {
      const solver::DeviceGroup& group = p.instance.groups[g];
      names.push_back(group.node.empty() ? group.name : group.name + "@" + group.node);
    }
    lua_kit::push_texts(L, names);
    lua_rawseti(L, -2, ++n);
  } while (n < limit && std::next_permutation(order.begin(), order.end()));
  return 1;
}

std::string summary(const LoweredProblem& p) {
  return fmt::format("problem {}: {} layers, objective {}, theta {}", p.instance.name,
                     p.instance.num_layers(), to_string(p.problem.objective),
                     format_number(p.problem.theta));
}

template <class T, class Push>
void push_serving(lua_State* L, const LoweredProblem& p, const T solver::ServingProblem::*member,
                  Push push) {
  if (p.problem.serving) {
    push(L, (*p.problem.serving).*member);
  } else {
    lua_pushnil(L);
  }
}

template <class T>
void push_part(lua_State* L, const LoweredProblem& p, T solver::ServingProblem::*member) {
  if (p.problem.serving) {
    lua_kit::push_object<T>(L, std::make_shared<T>((*p.problem.serving).*member));
  } else {
    lua_pushnil(L);
  }
}

void push_quality(lua_State* L, const LoweredProblem& p) {
  if (p.problem.quality_at_least.empty() && !p.problem.max_omega) {
    lua_pushnil(L);
    return;
  }
  lua_newtable(L);
  if (!p.problem.quality_at_least.empty()) {
    lua_kit::push_text(L, p.problem.quality_at_least);
    lua_setfield(L, -2, "at_least");
  }
  if (p.problem.max_omega) {
    lua_pushnumber(L, *p.problem.max_omega);
    lua_setfield(L, -2, "max_omega");
  }
}

void push_devices(lua_State* L, const LoweredProblem& p) {
  std::vector<std::string> names;
  if (p.problem.serving) {
    const Cluster& cluster = p.problem.serving->cluster;
    for (const ClusterDevice& slot : cluster.devices)
      names.push_back(slot.device.name + "@" + cluster.nodes[slot.node_index].name);
  } else {
    for (const solver::DeviceGroup& group : p.instance.groups)
      names.insert(names.end(), static_cast<std::size_t>(group.count), group.name);
  }
  lua_kit::push_texts(L, names);
}

}  // namespace

template <>
const lua_kit::ObjectType<LoweredProblem>& lua_kit::object_type<LoweredProblem>() {
  using P = LoweredProblem;
  using S = solver::ServingProblem;
  static const ObjectType<P> type{
      .name = "tessera.Problem",
      .doc = "What is to be planned and what counts as good.",
      .fields =
          {{"name", "string", "Model and cluster, or the instance's name",
            [](lua_State* L, const P& p) { push_text(L, p.instance.name); }},
           {"model", "tessera.Model?", "Absent for an instance",
            [](lua_State* L, const P& p) { push_part(L, p, &S::model); }},
           {"cluster", "tessera.Cluster?", "Absent for an instance",
            [](lua_State* L, const P& p) { push_part(L, p, &S::cluster); }},
           {"workload", "tessera.Workload?", "Absent for an instance",
            [](lua_State* L, const P& p) { push_part(L, p, &S::workload); }},
           {"indicator", "tessera.Indicator?", "Absent for an instance",
            [](lua_State* L, const P& p) { push_part(L, p, &S::indicator); }},
           {"bitwidths", "integer[]", "Candidates, ascending",
            [](lua_State* L, const P& p) {
              push_numbers(L, {p.instance.bitwidths.begin(), p.instance.bitwidths.end()});
            }},
           {"objective", "string", "steady or paper",
            [](lua_State* L, const P& p) { push_text(L, to_string(p.problem.objective)); }},
           {"theta", "number", "Price of omega",
            [](lua_State* L, const P& p) { lua_pushnumber(L, p.problem.theta); }},
           {"theta_unit", "string", "What theta multiplies",
            [](lua_State* L, const P& p) { push_text(L, to_string(p.problem.theta_unit)); }},
           {"quality", "table?", "The quality floor", push_quality},
           {"memory", "string?", "physical or llm-pq",
            [](lua_State* L, const P& p) {
              push_serving(L, p, &S::memory, [](lua_State* l, const cost::MemoryPreset& m) {
                push_text(l, cost::to_string(m));
              });
            }},
           {"kernel_set", "string?", "Kernels that the latencies assume",
            [](lua_State* L, const P& p) {
              push_serving(L, p, &S::kernel_set,
                           [](lua_State* l, const cost::KernelSet& k) { push_text(l, k.name); });
            }},
           {"kv_bitwidth", "number?", "Of the KV cache (bits)",
            [](lua_State* L, const P& p) {
              push_serving(L, p, &S::kv_bitwidth,
                           [](lua_State* l, const double& b) { lua_pushnumber(l, b); });
            }},
           {"allow_empty_stage", "boolean", "Middle stages may be empty",
            [](lua_State* L, const P& p) { lua_pushboolean(L, p.problem.allow_empty_stage); }},
           {"num_layers", "integer", "Decoder layers",
            [](lua_State* L, const P& p) {
              push_integer(L, static_cast<std::int64_t>(p.instance.num_layers()));
            }},
           {"batch_size", "integer", "Requests",
            [](lua_State* L, const P& p) { push_integer(L, p.instance.batch_size); }},
           {"devices", "string[]",
            "Names in cluster order, with their nodes (\"T4-16G@a\"), as device_order takes them",
            push_devices}},
      .methods = {{"with", guarded<with>, "(changes: table): tessera.Problem",
                   "A copy with options of ts.problem changed"},
                  {"evaluate", guarded<evaluate>, "(plan: table): table",
                   "Prices stages given by hand: fits, objective, latency_s, omega; constraint and "
                   "message where it does not fit"},
                  {"micro_batch_sizes", guarded<micro_batch_sizes>, "(): integer[]",
                   "Sizes worth trying: the smallest of each number of micro-batches"},
                  {"balanced_partition", guarded<balanced_partition>,
                   "(options: table): integer[]?",
                   "Layers per stage at one bitwidth, balanced by the workload's stage times; nil "
                   "where none fits"},
                  {"device_orders", guarded<device_orders>, "(limit: integer?): string[][]",
                   "Distinct orders of all devices"}},
      .summary = summary};
  return type;
}

namespace solver_lua {

const OptionTable& problem_options() {
  static const OptionTable table{
      "ts.problem",
      "What is to be planned: a model on a cluster under a workload, or an abstract instance file.",
      "tessera.Problem",
      {{.name = "model",
        .type = OptionType::table,
        .doc = "Model, or its name",
        .lua_type = "tessera.Model|string|table"},
       {.name = "cluster",
        .type = OptionType::table,
        .doc = "Cluster, or its name",
        .lua_type = "tessera.Cluster|string|table"},
       {.name = "workload",
        .type = OptionType::table,
        .doc = "Workload, or its name",
        .default_text = "\"llmpq\"",
        .lua_type = "tessera.Workload|string|table"},
       {.name = "instance",
        .type = OptionType::text,
        .doc = "Abstract instance file, instead of model, cluster and workload"},
       {.name = "bitwidths",
        .type = OptionType::integer_list,
        .doc = "Candidate bitwidths",
        .unit = "bits",
        .default_text = "{3, 4, 8, 16}",
        .min = 1,
        .max = 16},
       {.name = "objective",
        .type = OptionType::choice,
        .doc = "steady: the pipeline's steady state; paper: eq. (4) as printed",
        .default_text = "\"steady\"",
        .choices = {"steady", "paper"}},
       {.name = "theta",
        .doc = "Price of quality loss; 0 with a quality floor, the file's own with an instance",
        .default_text = "1",
        .min = 0,
        .max = 1e12},
       {.name = "theta_unit",
        .type = OptionType::choice,
        .doc = "What theta multiplies: omega scaled so that 4 bits throughout cost 1 s, or raw "
               "omega and milliseconds",
        .default_text = "\"s_per_normalised_omega\"",
        .choices = {"s_per_normalised_omega", "ms_per_raw_omega"}},
       {.name = "quality",
        .type = OptionType::table,
        .doc = "Quality floor: { at_least = \"uniform\" } or { max_omega = x }",
        .lua_type = "table"},
       {.name = "indicator",
        .type = OptionType::table,
        .doc = "Indicator, file, or omega[layer][bitwidth]; default: the same for every layer",
        .lua_type = "tessera.Indicator|string|table"},
       {.name = "memory",
        .type = OptionType::choice,
        .doc = "Memory model",
        .default_text = "\"physical\"",
        .choices = {"physical", "llm-pq"}},
       {.name = "kernel_set",
        .type = OptionType::text,
        .doc = "Kernels that run the layers",
        .default_text = "\"tessera\""},
       {.name = "kv_bitwidth",
        .doc = "Bitwidth of the KV cache",
        .unit = "bits",
        .default_text = "16",
        .min = 1,
        .max = 16},
       {.name = "allow_empty_stage",
        .type = OptionType::boolean,
        .doc = "Middle stages may hold no layer",
        .default_text = "false"}}};
  return table;
}

int new_problem(lua_State* L) {
  const lua_kit::Options options(L, 1, problem_options(), "ts.problem");
  solver::Problem problem;
  problem.objective =
      options.choice("objective") == "paper" ? solver::Objective::paper : solver::Objective::steady;
  problem.theta = options.number("theta");
  problem.theta_unit = options.choice("theta_unit") == "ms_per_raw_omega"
                           ? solver::ThetaUnit::ms_per_raw_omega
                           : solver::ThetaUnit::s_per_normalised_omega;
  problem.allow_empty_stage = options.boolean("allow_empty_stage");
  set_quality(L, options, problem);
  if (options.given("instance")) {
    read_instance(options, problem);
  } else {
    problem.serving = serving_from(L, options);
  }
  lua_kit::push_object<LoweredProblem>(L, lowered(std::move(problem)));
  return 1;
}

void register_problem(lua_State* L) {
  lua_kit::register_object<LoweredProblem>(L);
  core_lua::environment(L).reference.add_object<LoweredProblem>();
  core_lua::environment(L).reference.add(problem_options());
  core_lua::environment(L).reference.add(partition_options());
}

}  // namespace solver_lua
}  // namespace tessera
