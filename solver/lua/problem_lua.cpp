#include "problem_lua.h"

#include <fmt/format.h>

#include <map>

#include "core_lua.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
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
                     instance.num_layers(), to_string(problem.objective),
                     format_number(problem.theta));
}

template <class Push>
void push_serving(lua_State* L, const OpenProblem& p, Push push) {
  if (const solver::ServingProblem* serving = p.first.serving()) {
    push(*serving);
  } else {
    lua_pushnil(L);
  }
}

template <class T>
void push_part(lua_State* L, const OpenProblem& p, T solver::ServingProblem::*member) {
  push_serving(L, p, [&](const solver::ServingProblem& serving) {
    lua_kit::push_object<T>(L, std::make_shared<T>(serving.*member));
  });
}

void push_quality(lua_State* L, const OpenProblem& p) {
  const solver::Problem& problem = p.first.problem();
  if (!problem.quality_at_least && !problem.max_omega) {
    lua_pushnil(L);
    return;
  }
  lua_newtable(L);
  if (problem.quality_at_least) {
    lua_kit::push_text(L, *problem.quality_at_least);
    lua_setfield(L, -2, "at_least");
  }
  if (problem.max_omega) {
    lua_pushnumber(L, *problem.max_omega);
    lua_setfield(L, -2, "max_omega");
  }
}

void push_kv_bitwidths(lua_State* L, const OpenProblem& p) {
  push_serving(L, p, [&](const solver::ServingProblem& serving) {
    const auto values = p.choices.kv_bitwidths.value_or(std::vector{serving.kv_bitwidth});
    lua_kit::push_numbers(L, {values.begin(), values.end()});
  });
}

void push_constraints(lua_State* L, const OpenProblem& p) {
  Json list = Json::array();
  for (const solver::Constraint& constraint : p.first.problem().constraints) {
    list.push_back(to_json(constraint));
  }
  lua_kit::push_json(L, list);
}

// A tensor-parallel group stands for its devices, under its first one.
std::vector<std::string> device_names(const solver::ServingProblem& serving) {
  const Cluster& cluster = serving.cluster;
  std::map<std::size_t, std::string> by_first;
  for (const solver::MeshGroup& group : solver::mesh_groups(cluster, serving.mesh)) {
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
  if (const solver::ServingProblem* serving = p.first.serving()) {
    return lua_kit::push_texts(L, device_names(*serving));
  }
  std::vector<std::string> names;
  for (const solver::DeviceGroup& group : p.first.instance().groups)
    names.insert(names.end(), static_cast<std::size_t>(group.count), group.name);
  lua_kit::push_texts(L, names);
}

}  // namespace

template <>
const lua_kit::ObjectType<OpenProblem>& lua_kit::object_type<OpenProblem>() {
  using P = OpenProblem;
  using S = solver::ServingProblem;
  static const ObjectType<P> type{
      .name = "tessera.Problem",
      .doc = "What is to be planned and what counts as good.",
      .fields =
          {{"name", "string", "Model and cluster, or the instance's name",
            [](lua_State* L, const P& p) { push_text(L, p.first.instance().name); }},
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
              const auto& bitwidths = p.first.instance().bitwidths;
              push_numbers(L, {bitwidths.begin(), bitwidths.end()});
            }},
           {"objective", "string", "steady or paper",
            [](lua_State* L, const P& p) { push_text(L, to_string(p.first.problem().objective)); }},
           {"theta", "number", "Price of omega",
            [](lua_State* L, const P& p) { lua_pushnumber(L, p.first.problem().theta); }},
           {"theta_unit", "string", "What theta multiplies",
            [](lua_State* L, const P& p) {
              push_text(L, to_string(p.first.problem().theta_unit));
            }},
           {"quality", "table?", "The quality floor", push_quality},
           {"memory", "string?", "physical or llm-pq",
            [](lua_State* L, const P& p) {
              push_serving(L, p, [&](const S& s) { push_text(L, name_of(s.memory)); });
            }},
           {"kernel_set", "string?", "Kernels that the latencies assume",
            [](lua_State* L, const P& p) {
              push_serving(L, p, [&](const S& s) { push_text(L, s.kernel_set.name); });
            }},
           {"tensor_parallel", "integer[]?", "Degrees to choose from; absent for an instance",
            [](lua_State* L, const P& p) {
              push_serving(L, p, [&](const S& s) {
                const auto degrees = degrees_of(s, p.choices);
                push_numbers(L, {degrees.begin(), degrees.end()});
              });
            }},
           {"kv_bitwidths", "number[]?", "Of the KV cache, to choose from (bits)",
            push_kv_bitwidths},
           {"kv_bitwidth", "number?", "Of the KV cache (bits); the first where it is open",
            [](lua_State* L, const P& p) {
              push_serving(L, p, [&](const S& s) { lua_pushnumber(L, s.kv_bitwidth); });
            }},
           {"allow_empty_stage", "boolean", "Middle stages may be empty",
            [](lua_State* L, const P& p) {
              lua_pushboolean(L, p.first.problem().allow_empty_stage);
            }},
           {"constraints", "table[]", "Side constraints, as problem:add_constraint takes them",
            push_constraints},
           {"num_layers", "integer", "Decoder layers",
            [](lua_State* L, const P& p) {
              push_integer(L, static_cast<std::int64_t>(p.first.instance().num_layers()));
            }},
           {"batch_size", "integer", "Requests",
            [](lua_State* L, const P& p) { push_integer(L, p.first.instance().batch_size); }},
           {"devices", "string[]",
            "Names in cluster order, with their nodes (\"T4-16G@a\"), as device_order takes them",
            push_devices}},
      .methods = {{"with", guarded<with>, "(changes: table): tessera.Problem",
                   "A copy with options of ts.problem changed"},
                  {"add_constraint", guarded<solver_lua::add_constraint>,
                   "(constraint: table): tessera.Problem",
                   "A copy with one more linear row that every plan must keep; problem:with { "
                   "constraints = {} } lifts them"},
                  {"write_model", guarded<solver_lua::write_model>,
                   "(path: string, options: table): boolean?, tessera.Error?",
                   "Writes the integer programme as .lp or .mps, for other solvers"},
                  {"evaluate", guarded<solver_lua::evaluate>, "(plan: table): table",
                   "Prices stages given by hand: fits, objective, latency_s, omega; constraint and "
                   "message where it does not fit"},
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
                  {"variants", guarded<solver_lua::variants>,
                   "(): tessera.Problem[], string[], string[]",
                   "One problem for each way to settle what is open (tensor parallelism, KV "
                   "bitwidth), their names, and notes on what was left out"},
                  {"device_orders", guarded<solver_lua::device_orders>,
                   "(limit: integer?): string[][]", "Distinct orders of all devices"}},
      .summary = summary};
  return type;
}

namespace solver_lua {

void push_problem(lua_State* L, solver::OpenProblem problem) {
  problem.first.instance();  // a problem that no instance can be made of is refused here
  lua_kit::push_object<OpenProblem>(L, std::make_shared<OpenProblem>(std::move(problem)));
}

int new_problem(lua_State* L) {
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
