// ts.deployment.

#include "deployment_lua.h"

#include <fmt/format.h>

#include <algorithm>

#include "core_lua.h"
#include "engine_lua.h"
#include "scheduler_lua.h"
#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/serving/models.h"
#include "tessera/solver/deploy/step_mix.h"

namespace tessera {

using serving::Replica;
using solver::AssembledDeployment;
using solver::Plan;
using solver::PoolOptions;

namespace solver_lua {
namespace {

/// What stands for itself in a pool's options; the rest of them are records.
void read_pool(const lua_kit::Options& options, PoolOptions& pool) {
  // What says what a pool runs takes the place of what its deployment says of that.
  if (options.given("step_cost")) pool.plan.reset();
  if (options.given("step_cost") || options.given("plan")) {
    pool.model.reset();
    pool.cluster.reset();
  }
  lua_kit::read_options(options, pool);
  options.read("plan", lua_kit::check_object<solver::Plan>, pool.plan);
  options.read("model", core_lua::model_argument, pool.model);
  options.read("cluster", core_lua::cluster_argument, pool.cluster);
  options.read("engine", serving_lua::engine_argument, pool.engine);
  options.read("step_cost", serving_lua::step_cost_argument, pool.step_cost);
}

serving::KvTransfer transfer_at(lua_State* L, int index, const std::string& path) {
  const lua_kit::Options options(L, index, transfer_options(), path);
  serving::KvTransfer transfer;
  lua_kit::read_options(options, transfer);
  if (options.given("link_gbps")) transfer.bytes_per_s = options.number("link_gbps") * 1e9 / 8;
  return transfer;
}

solver::DeploymentOptions options_at(lua_State* L, const lua_kit::Options& options) {
  solver::DeploymentOptions deployment;
  deployment.make_scheduler = serving_lua::scheduler_maker(L);
  lua_kit::read_options(options, deployment);
  options.read("draft", [&](lua_State*, int index, const std::string& path) {
    const Plan& plan = *lua_kit::check_object<Plan>(L, index, path);
    deployment.draft = std::make_shared<solver::PipelinePlan>(pipeline_of(plan, path));
  });
  read_pool(options, deployment.pool);
  options.read("pools", [&](lua_State*, int index, const std::string& path) {
    deployment.pools.emplace();
    lua_kit::for_each_item(L, index, path, [&](std::size_t, const std::string& item) {
      deployment.pools->push_back(deployment.pool);
      read_pool({L, lua_gettop(L), one_pool_options(), item}, deployment.pools->back());
    });
  });
  read_router(options, deployment);
  options.read("transfer", transfer_at, deployment.transfer);
  return deployment;
}

std::string describe(const AssembledDeployment& d) {
  if (const auto& set = d.deployment.models) {
    return fmt::format("deployment: {} model{} on {} GPU{}; {}", set->models.size(),
                       set->models.size() == 1 ? "" : "s", set->devices.size(),
                       set->devices.size() == 1 ? "" : "s", d.source);
  }
  std::string text = fmt::format("deployment: {} engine{}", d.deployment.replicas.size(),
                                 d.deployment.replicas.size() == 1 ? "" : "s");
  if (d.deployment.replicas.size() > 1) text += ", router " + d.deployment.router.name;
  return text + (d.source.empty() ? "" : "; " + d.source);
}

/// What an engine is, but for its number.
std::string words_of(const Replica& r) {
  std::string text = fmt::format(
      "{:8} {}  {}{}, {} requests, {} tokens a step; KV cache {}", name_of(r.role), r.name,
      r.engine.scheduler, r.engine.async_scheduling.value_or(false) ? " (async_scheduling)" : "",
      r.engine.max_num_seqs, r.engine.max_num_batched_tokens,
      r.kv_blocks > 0 ? fmt::format("{} blocks of {} tokens", r.kv_blocks, r.engine.block_size)
                      : "as large as needed");
  if (r.share != 1) text += fmt::format("; share {:g}", r.share);
  return text;
}

std::string describe_fully(const AssembledDeployment& d) {
  std::string text = describe(d) + "\n";
  const std::vector<Replica>& replicas = d.deployment.replicas;
  for (std::size_t i = 0, next = 0; i < replicas.size(); i = next) {
    const std::string own = words_of(replicas[i]);
    for (next = i + 1; next < replicas.size() && words_of(replicas[next]) == own;) ++next;
    const std::string numbers =
        next == i + 1 ? fmt::format("{}", i) : fmt::format("{}-{}", i, next - 1);
    text += fmt::format("  {}  {}\n", numbers, own);
  }
  for (const std::string& note : d.notes) text += "  note: " + note + "\n";
  return text;
}

/// What a step takes on the first engine, for a look at prices.
int step_s(lua_State* L) {
  const auto held = lua_kit::check_object<AssembledDeployment>(L, 1, "deployment");
  const lua_kit::Options options(L, 2, step_options(), "deployment:step_s");
  if (held->deployment.replicas.empty()) {
    refuse("deployment:step_s", "models get their engines when they come; there are none yet");
  }
  solver::StepMix mix;
  lua_kit::read_options(options, mix);
  lua_pushnumber(L, solver::step_s(*held->deployment.replicas.front().cost, mix));
  return 1;
}

}  // namespace

PoolOptions pool_argument(lua_State* L, int index, const std::string& path) {
  PoolOptions pool;
  read_pool({L, index, one_pool_options(), path}, pool);
  return pool;
}

int new_deployment(lua_State* L) {
  if (lua_kit::test_object<AssembledDeployment>(L, 1) != nullptr) {
    lua_settop(L, 1);
    return 1;
  }
  const std::string path = "ts.deployment";
  const lua_kit::Options options(L, 1, deployment_options(), path);
  if (options.given("strategy")) {
    refuse(options.path_of("strategy"), "says where models go: give models, too");
  }
  lua_kit::push_object<AssembledDeployment>(
      L, std::make_shared<AssembledDeployment>(
             solver::assemble(options_at(L, options), core_lua::environment(L).folders, path)));
  return 1;
}

void register_deployment(lua_State* L) {
  lua_kit::register_object<AssembledDeployment>(L);
  lua_kit::Reference& reference = core_lua::environment(L).reference;
  reference.add_object<AssembledDeployment>();
  reference.add(deployment_options());
  reference.add(one_pool_options());
  reference.add(transfer_options());
  reference.add(step_options());
}

}  // namespace solver_lua

template <>
const lua_kit::ObjectType<AssembledDeployment>& lua_kit::object_type<AssembledDeployment>() {
  using D = AssembledDeployment;
  static const ObjectType<D> type{
      .name = "tessera.Deployment",
      .doc = "Engines that serve together.",
      .fields = joined<D>(
          {fields_of<D>(),
           {{"plan", "tessera.Plan?", "What runs, where there is a model and one pool",
             [](lua_State* L, const D& d) {
               if (const auto plan = solver::plan_of(d, core_lua::environment(L).folders)) {
                 solver_lua::push_plan(L, *plan);
               } else {
                 lua_pushnil(L);
               }
             }}}}),
      .methods = {{"step_s", guarded<solver_lua::step_s>, "(options: table): number",
                   "Time of a step on the first engine (s); options num_decodes, context_tokens, "
                   "num_prompts, prompt_tokens, prompt_context_tokens"}},
      .summary = solver_lua::describe,
      .describe = solver_lua::describe_fully};
  return type;
}

}  // namespace tessera
