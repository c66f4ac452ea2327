#include "problem_lua.h"

#include <fmt/format.h>

#include <map>

#include "core_lua.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/variants.h"

namespace tessera {

using solver_lua::LoweredProblem;

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
  solver::Problem changed = lua_kit::check_object<LoweredProblem>(L, 1, "problem")->problem;
  solver_lua::change(L, lua_kit::Options(L, 2, table, "problem:with"), changed);
  solver_lua::push_lowered(L, std::move(changed));
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

void push_constraints(lua_State* L, const LoweredProblem& p) {
  Json list = Json::array();
  for (const solver::Constraint& constraint : p.problem.constraints) {
    list.push_back(to_json(constraint));
  }
  lua_kit::push_json(L, list);
}

void push_devices(lua_State* L, const LoweredProblem& p) {
  std::vector<std::string> names;
  if (p.problem.serving) {
    const Cluster& cluster = p.problem.serving->cluster;
    std::map<std::size_t, std::string> by_first;  // a tensor-parallel group stands for its devices
    for (const solver::MeshGroup& group : solver::mesh_groups(cluster, p.problem.serving->mesh)) {
      for (const auto& members : group.members) {
        const std::size_t node = cluster.devices[members.front()].node_index;
        by_first[members.front()] = group.name + "@" + cluster.nodes[node].name;
      }
    }
    for (const auto& [first, name] : by_first) names.push_back(name);
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
                push_text(l, name_of(m));
              });
            }},
           {"kernel_set", "string?", "Kernels that the latencies assume",
            [](lua_State* L, const P& p) {
              push_serving(L, p, &S::kernel_set,
                           [](lua_State* l, const cost::KernelSet& k) { push_text(l, k.name); });
            }},
           {"tensor_parallel", "integer[]?", "Degrees to choose from; absent for an instance",
            [](lua_State* L, const P& p) {
              if (!p.problem.serving) return lua_pushnil(L);
              const auto degrees = degrees_of(*p.problem.serving);
              push_numbers(L, {degrees.begin(), degrees.end()});
            }},
           {"kv_bitwidths", "number[]?", "Of the KV cache, to choose from (bits)",
            [](lua_State* L, const P& p) {
              push_serving(L, p, &S::kv_bitwidths,
                           [](lua_State* l, const std::vector<double>& b) { push_numbers(l, b); });
            }},
           {"kv_bitwidth", "number?", "Of the KV cache (bits); the first where it is open",
            [](lua_State* L, const P& p) {
              push_serving(L, p, &S::kv_bitwidth,
                           [](lua_State* l, const double& b) { lua_pushnumber(l, b); });
            }},
           {"allow_empty_stage", "boolean", "Middle stages may be empty",
            [](lua_State* L, const P& p) { lua_pushboolean(L, p.problem.allow_empty_stage); }},
           {"constraints", "table[]", "Side constraints, as problem:add_constraint takes them",
            push_constraints},
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

void push_lowered(lua_State* L, solver::Problem problem) {
  auto result = std::make_shared<LoweredProblem>();
  result->instance = solver::lower(problem);
  result->problem = std::move(problem);
  lua_kit::push_object<LoweredProblem>(L, std::move(result));
}

int new_problem(lua_State* L) {
  push_lowered(L, problem_from(L, lua_kit::Options(L, 1, problem_options(), "ts.problem")));
  return 1;
}

void register_problem(lua_State* L) {
  lua_kit::register_object<LoweredProblem>(L);
  auto& reference = core_lua::environment(L).reference;
  reference.add_object<LoweredProblem>();
  reference.add(problem_options());
  reference.add(partition_options());
  reference.add(facts_options());
  reference.add(constraint_options());
  reference.add(constraint_term_options());
  reference.add(model_options());
}

}  // namespace solver_lua
}  // namespace tessera
