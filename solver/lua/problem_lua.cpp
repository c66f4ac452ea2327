#include "problem_lua.h"

#include <fmt/format.h>

#include <map>

#include "core_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera {

using solver::OpenProblem;

namespace {

/// with(changes): the same problem with some options changed.
int with(lua_State* L) {
  static const OptionTable table = [] {
    OptionTable t = solver_lua::problem_options();
    t.name = "problem:with";
    t.doc = "A copy of the problem with these options changed.";
    for (OptionSpec& spec : t.options) spec.default_text = {};
    return t;
  }();
  const OpenProblem& before = solver_lua::problem_argument(L, 1);
  solver_lua::push_problem(
      L, solver_lua::changed(L, lua_kit::Options(L, 2, table, "problem:with"), before));
  return 1;
}

std::string summary(const OpenProblem& p) {
  const solver::Problem& problem = p.first.problem();
  const solver::Instance& instance = p.first.instance();
  return fmt::format("problem {}: {} layers, objective {}, theta {}", instance.name,
                     instance.num_layers(), name_of(problem.objective),
                     format_number(problem.theta_in_force()));
}

template <class Push>
void push_batch(lua_State* L, const OpenProblem& p, Push push) {
  if (const solver::BatchProblem* batch = p.first.batch()) {
    push(*batch);
  } else {
    lua_pushnil(L);
  }
}

void push_quality(lua_State* L, const OpenProblem& p) {
  const solver::Problem& problem = p.first.problem();
  if (!problem.has_quality_floor()) {
    lua_pushnil(L);
    return;
  }
  lua_newtable(L);
  if (problem.bound.is_set()) {
    lua_kit::set_fields(L, problem.bound);
    return;
  }
  if (problem.quality_at_least) {
    lua_kit::set_text(L, "at_least", *problem.quality_at_least);
  }
  if (problem.max_omega) {
    lua_kit::set_number(L, "max_omega", *problem.max_omega);
  }
}

void push_degrees(lua_State* L, const OpenProblem& p) {
  push_batch(L, p, [&](const solver::BatchProblem& batch) {
    lua_kit::push_value(L, degrees_of(batch, p.choices));
  });
}

void push_kv_bitwidths(lua_State* L, const OpenProblem& p) {
  push_batch(L, p, [&](const solver::BatchProblem& batch) {
    lua_kit::push_value(L, p.choices.kv_bitwidths.value_or(std::vector{batch.kv_bitwidth}));
  });
}

void push_kernel_sets(lua_State* L, const OpenProblem& p) {
  push_batch(L, p, [&](const solver::BatchProblem& batch) {
    std::vector<std::string> names;
    for (const cost::KernelSet& set : p.kernel_sets) names.push_back(set.name);
    if (names.empty()) names.push_back(batch.kernel_set.name);
    lua_kit::push_texts(L, names);
  });
}

// A tensor-parallel group stands for its devices, under its first one.
std::vector<std::string> device_names(const solver::BatchProblem& batch) {
  const Cluster& cluster = batch.cluster;
  std::map<std::size_t, std::string> by_first;
  for (const solver::MeshGroup& group : solver::groups_of(batch)) {
    for (const auto& members : group.members) {
      const std::size_t node = cluster.devices[members.front()].node_index;
      by_first[members.front()] = group.name + "@" + cluster.nodes[node].name;
    }
  }
  std::vector<std::string> names;
  for (const auto& [first, name] : by_first) names.push_back(name);
  return names;
}

void push_devices(lua_State* L, const OpenProblem& p) {
  if (const solver::BatchProblem* batch = p.first.batch()) {
    return lua_kit::push_texts(L, device_names(*batch));
  }
  std::vector<std::string> names;
  for (const solver::DeviceGroup& group : p.first.instance().groups)
    names.insert(names.end(), static_cast<std::size_t>(group.count), group.name);
  lua_kit::push_texts(L, names);
}

}  // namespace

namespace lua_kit {

template <>
struct ScriptValue<ModelShape> : ObjectValue<ModelShape> {};
template <>
struct ScriptValue<Cluster> : ObjectValue<Cluster> {};
template <>
struct ScriptValue<Workload> : ObjectValue<Workload> {};
template <>
struct ScriptValue<Indicator> : ObjectValue<Indicator> {};

}  // namespace lua_kit

namespace {

using ProblemField = lua_kit::ObjectField<OpenProblem>;

/// Of the batch problem, absent for an instance.
std::vector<ProblemField> serving_fields() {
  constexpr auto show = [](const OpenProblem& p, auto&& read) {
    if (const solver::BatchProblem* batch = p.first.batch()) read(*batch);
  };
  return lua_kit::fields_shown<OpenProblem, solver::BatchProblem, show>(false);
}

/// What counts as good.
std::vector<ProblemField> goal_fields() {
  constexpr auto show = [](const OpenProblem& p, auto&& read) { read(p.first.problem()); };
  return lua_kit::fields_shown<OpenProblem, solver::Problem, show>();
}

/// Of the instance that it lowers to.
std::vector<ProblemField> instance_fields() {
  using P = OpenProblem;
  return {
      {"name", "string", "Model and cluster, or the instance's name",
       [](lua_State* L, const P& p) { lua_kit::push_value(L, p.first.instance().name); }},
      {"num_layers", "integer", "Decoder layers",
       [](lua_State* L, const P& p) { lua_kit::push_value(L, p.first.instance().num_layers()); }},
      {"batch_size", "integer", "Requests",
       [](lua_State* L, const P& p) { lua_kit::push_value(L, p.first.instance().batch_size); }},
      {"bitwidths", "integer[]", "Candidates, ascending",
       [](lua_State* L, const P& p) { lua_kit::push_value(L, p.first.instance().bitwidths); }},
      {"devices", "string[]",
       "Names in cluster order, with their nodes (\"T4-16G@a\"), as device_order takes them",
       push_devices}};
}

/// What is open, and the floor, which is one table.
std::vector<ProblemField> other_fields() {
  return {
      {"quality", "table?", "The quality floor, as it was given", push_quality},
      {"max_omega", "number?", "Largest omega of a plan, which a floor in other words becomes too",
       [](lua_State* L, const OpenProblem& p) {
         lua_kit::push_value(L, p.first.problem().max_omega);
       }},
      {"tensor_parallel", "integer[]?", "Degrees to choose from; absent for an instance",
       push_degrees},
      {"uniform_degree", "boolean?",
       "All stages of a pipeline have the same degree; absent for an instance",
       [](lua_State* L, const OpenProblem& p) {
         if (p.first.batch() == nullptr) return lua_pushnil(L);
         lua_pushboolean(L, p.choices.uniform_degree ? 1 : 0);
       }},
      {"searches_replicas", "boolean?",
       "Whether ts.plan looks for replicas where it is not told how many; absent for an instance",
       [](lua_State* L, const OpenProblem& p) {
         if (p.first.batch() == nullptr) return lua_pushnil(L);
         lua_pushboolean(L, p.choices.may_replicate ? 1 : 0);
       }},
      {"kv_bitwidths", "integer[]?", "Of the KV cache, to choose from (bits)", push_kv_bitwidths},
      {"kernel_sets", "string[]?", "Kernel sets to choose from", push_kernel_sets}};
}

}  // namespace

template <>
const lua_kit::ObjectType<OpenProblem>& lua_kit::object_type<OpenProblem>() {
  static const ObjectType<OpenProblem> type{
      .name = "tessera.Problem",
      .doc = "What is to be planned and what counts as good.",
      .fields =
          joined<OpenProblem>({instance_fields(), serving_fields(), goal_fields(), other_fields()}),
      .methods =
          {{"with", guarded<with>, "(changes: table): tessera.Problem",
            "A copy with options of ts.problem changed"},
           {"add_constraint", guarded<solver_lua::add_constraint>,
            "(constraint: table): tessera.Problem",
            "A copy with one more linear row that every plan must keep; problem:with { "
            "constraints = {} } lifts them"},
           {"write_model", guarded<solver_lua::write_model>,
            "(path: string, options: table): boolean?, tessera.Error?",
            "Writes the integer programme as .lp or .mps, for other solvers"},
           {"evaluate", guarded<solver_lua::evaluate>, "(plan: table): table",
            "Prices stages given by hand: fits, objective, latency_s = prefill_s + decode_s for "
            "each token after the first, omega; constraint and message where it does not fit"},
           {"micro_batch_sizes", guarded<solver_lua::micro_batch_sizes>, "(): integer[]",
            "Sizes worth trying: the smallest of each number of micro-batches"},
           {"balanced_partition", guarded<solver_lua::balanced_partition>,
            "(options: table): integer[]?",
            "Layers per stage at one bitwidth, balanced by the workload's stage times; nil "
            "where none fits"},
           {"device_facts", guarded<solver_lua::device_facts>, "(options: table): table[]",
            "Usable memory, FP16 rate and time of a layer of each device"},
           {"offload", guarded<solver_lua::offload>, "(plan: table): table[]?, number",
            "FlexGen's linear programme for stages given by hand with offload = { "
            "gpu_batch_size = }: shares per stage of weights, kv_cache and activations on "
            "device, host and disk, and the latency (s); nil and why where none fits"},
           {"variants", guarded<solver_lua::variants>, "(): tessera.Problem[], string[], string[]",
            "One problem for each way to settle what is open (tensor parallelism, KV "
            "bitwidth), their names, and notes on what was left out"},
           {"device_orders", guarded<solver_lua::device_orders>, "(limit: integer?): string[][]",
            "Distinct orders of all devices"}},
      .summary = summary};
  return type;
}

namespace solver_lua {

void push_problem(lua_State* L, solver::OpenProblem problem) {
  problem.first.instance();  // a problem that no instance can be made of is refused here
  lua_kit::push_object<OpenProblem>(L, std::make_shared<OpenProblem>(std::move(problem)));
}

// Who writes the options of a workload beside those of the problem means them.
void refuse_workload_options(lua_State* L) {
  if (!lua_istable(L, 1)) return;
  for (const OptionSpec& option : core_lua::workload_options().options) {
    const std::string name(option.name);
    const bool given = lua_kit::push_field(L, 1, name, "ts.problem");
    lua_pop(L, 1);
    if (!given || problem_options().find(name) != nullptr) continue;
    refuse(ErrorCode::invalid_argument, "ts.problem",
           "{} is an option of the workload: workload = {{ {} = ... }}", quote(name), name);
  }
}

int new_problem(lua_State* L) {
  refuse_workload_options(L);
  push_problem(L, problem_from(L, lua_kit::Options(L, 1, problem_options(), "ts.problem")));
  return 1;
}

void register_problem(lua_State* L) {
  lua_kit::register_object<OpenProblem>(L);
  auto& reference = core_lua::environment(L).reference;
  reference.add_object<OpenProblem>();
  reference.add(problem_options());
  reference.add(partition_options());
  reference.add(facts_options());
  reference.add(constraint_options());
  reference.add(constraint_term_options());
  reference.add(model_options());
}

}  // namespace solver_lua
}  // namespace tessera
