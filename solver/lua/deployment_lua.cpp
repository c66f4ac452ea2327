// ts.deployment.

#include "deployment_lua.h"

#include <fmt/format.h>

#include <algorithm>

#include "core_lua.h"
#include "engine_lua.h"
#include "scheduler_lua.h"
#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/plan/build_plan.h"
#include "tessera/solver/problem/quality_bound.h"
#include "tessera/solver/serving/deployment_plans.h"
#include "tessera/solver/serving/kv_capacity.h"
#include "tessera/solver/serving/step_cost.h"

namespace tessera {

using serving::Deployment;
using serving::Replica;
using serving::Role;
using solver::PipelinePlan;
using solver::Plan;
using solver_lua::DeploymentObject;

namespace solver_lua {
namespace {

/// Options of a pool, and of the deployment around it where the pool does not say.
class PoolReader {
 public:
  PoolReader(const lua_kit::Options& own, const lua_kit::Options* outer)
      : own_(own), outer_(outer) {}
  const lua_kit::Options& of(std::string_view name) const {
    return outer_ != nullptr && !own_.given(name) && outer_->given(name) ? *outer_ : own_;
  }
  bool given(std::string_view name) const { return of(name).given(name); }
  const lua_kit::Options& own() const { return own_; }

 private:
  const lua_kit::Options& own_;
  const lua_kit::Options* outer_;
};

std::vector<PipelinePlan> pipelines_of(const Plan& plan) {
  if (const auto* one = std::get_if<PipelinePlan>(&plan)) return {*one};
  return std::get<solver::ReplicatedPlan>(plan).replicas;
}

/// The host's time is of the engines that are made of a model and a cluster here.
void refuse_host(const PoolReader& pool, const char* why) {
  for (const char* name : {"host_step_s", "host_sequence_s", "host_prompt_s"}) {
    if (pool.given(name)) {
      refuse(pool.of(name).path_of(name), "{}; give model and cluster to set it", why);
    }
  }
}

std::vector<PipelinePlan> plans_at(lua_State* L, const PoolReader& pool, DeploymentObject& result) {
  if (pool.given("plan")) {
    for (const char* other : {"model", "cluster"}) {
      if (!pool.own().given(other)) continue;
      refuse(pool.own().path_of(other), "the plan has a {} already; give one or the other", other);
    }
    refuse_host(pool, "a plan has its kernel set's");
    const lua_kit::Options& options = pool.of("plan");
    options.push("plan");
    const Plan& plan = *lua_kit::check_object<Plan>(L, -1, options.path_of("plan"));
    lua_pop(L, 1);
    result.plan = plan;
    return pipelines_of(plan);
  }
  for (const char* needed : {"model", "cluster"}) {
    if (pool.given(needed)) continue;
    refuse(pool.own().path_of(needed), "give plan, or model and cluster, or step_cost");
  }
  const auto push = [&](const char* name) {
    pool.of(name).push(name);
    return lua_gettop(L);
  };
  const auto model = core_lua::model_argument(L, push("model"), pool.of("model").path_of("model"));
  const auto cluster =
      core_lua::cluster_argument(L, push("cluster"), pool.of("cluster").path_of("cluster"));
  lua_pop(L, 2);
  solver::DeploymentShape shape;
  shape.tensor_parallel = pool.of("tensor_parallel").integer("tensor_parallel");
  shape.pipeline_parallel = pool.of("pipeline_parallel").integer("pipeline_parallel");
  if (pool.given("replicas")) shape.replicas = pool.of("replicas").integer("replicas");
  shape.bitwidths.clear();
  for (const std::int64_t bits : pool.of("bitwidths").integers("bitwidths")) {
    shape.bitwidths.push_back(static_cast<std::int32_t>(bits));
  }
  const auto kv_bitwidth = static_cast<std::int32_t>(pool.of("kv_bitwidth").integer("kv_bitwidth"));
  solver::Problem whole = solver::deployment_problem(*model, *cluster, shape.bitwidths, kv_bitwidth,
                                                     pool.of("kernel_set").text("kernel_set"),
                                                     core_lua::environment(L).folders);
  solver::set_quality(whole, core_lua::environment(L).folders);
  cost::KernelSet& kernels = whole.serving()->kernel_set;
  const auto host = [&](const char* name, double& value) {
    if (pool.given(name)) value = pool.of(name).number(name);
  };
  host("host_step_s", kernels.host_step_s);
  host("host_sequence_s", kernels.host_sequence_s);
  host("host_prompt_s", kernels.host_prompt_s);
  std::vector<PipelinePlan> plans = solver::deployment_plans(whole, shape);
  if (plans.size() == 1 && std::ssize(*plans[0].devices) == std::ssize(cluster->devices)) {
    PipelinePlan whole_cluster = plans.front();
    whole_cluster.devices.reset();
    result.plan = std::move(whole_cluster);
  } else {
    whole.serving()->workload.batch_size = std::ssize(plans);
    result.plan = solver::join_replicas(whole, plans, "manual");
  }
  return plans;
}

double price_of(const PipelinePlan& plan) {
  double price = 0;
  const solver::ServingProblem& serving = *plan.problem.serving();
  for (const auto& placed : serving.cluster.devices) {
    price += placed.device.price_usd_per_h.value_or(0);
  }
  return price;
}

std::string name_of_plan(const PipelinePlan& plan) {
  std::vector<std::string> parts;
  for (const solver::PlanStage& stage : plan.stages) {
    if (parts.empty() || parts.back() != stage.device) parts.push_back(stage.device);
  }
  return join(parts, "+");
}

struct PoolContext {
  std::shared_ptr<cost::PriceCache> prices = std::make_shared<cost::PriceCache>();
  std::shared_ptr<const serving::StepCost> draft;
};

/// As the kernel set's runtime has it, where nobody says and it can.
void decide_ahead(serving::EngineOptions& engine, const solver::ServingProblem& problem,
                  std::size_t num_stages, const std::string& path) {
  const std::string why_not = serving::why_step_by_step(engine, num_stages);
  if (!engine.async_scheduling) {
    engine.async_scheduling = why_not.empty() && problem.kernel_set.async_scheduling;
  } else if (*engine.async_scheduling && !why_not.empty()) {
    refuse(path + ".engine.async_scheduling", "{}", why_not);
  }
}

Replica replica_of(const PipelinePlan& plan, serving::EngineOptions engine, bool blocks_given,
                   std::int64_t kv_blocks, PoolContext& context, const std::string& path) {
  const solver::ServingProblem* serving = plan.problem.serving();
  if (serving == nullptr) {
    refuse(path, "the plan of an abstract instance knows no model; give a plan of one");
  }
  Replica replica;
  if (engine.max_model_len == 0) engine.max_model_len = serving->model.max_context_tokens;
  const solver::KvCapacity capacity = solver::kv_capacity(plan, engine);
  replica.kv_blocks = blocks_given ? kv_blocks : engine.kv_blocks.value_or(capacity.blocks);
  if (replica.kv_blocks <= 0) refuse(path, "{}", capacity.why_not);
  decide_ahead(engine, *serving, plan.stages.size(), path);
  replica.name = name_of_plan(plan);
  const std::int32_t bits = solver::kv_bitwidth_of(plan, engine);
  replica.kv_bytes_per_token = serving->model.kv_bytes_per_token(bits);
  replica.cost = solver::make_step_cost(plan, engine, {context.draft, context.prices});
  replica.usd_per_h = price_of(plan);
  replica.engine = std::move(engine);
  return replica;
}

void read_pool(lua_State* L, const PoolReader& pool, Role role, DeploymentObject& result,
               PoolContext& context) {
  serving::EngineOptions engine;
  if (pool.given("engine")) {
    pool.of("engine").push("engine");
    engine = serving_lua::engine_argument(L, lua_gettop(L), pool.of("engine").path_of("engine"));
    lua_pop(L, 1);
  }
  const bool blocks_given = pool.given("kv_blocks");
  const std::int64_t kv_blocks = blocks_given ? pool.of("kv_blocks").integer("kv_blocks") : 0;
  std::vector<Replica> replicas;
  if (pool.given("step_cost")) {
    refuse_host(pool, "step_cost says all that a step takes");
    for (const char* other : {"plan", "model", "cluster"}) {
      if (!pool.own().given(other)) continue;
      refuse(pool.own().path_of(other), "step_cost says what a step takes; give one or the other");
    }
    const lua_kit::Options& options = pool.of("step_cost");
    options.push("step_cost");
    Replica replica;
    replica.cost = serving_lua::step_cost_argument(L, lua_gettop(L), options.path_of("step_cost"));
    lua_pop(L, 1);
    replica.kv_blocks = blocks_given ? kv_blocks : engine.kv_blocks.value_or(0);
    replica.engine = engine;
    if (pool.given("kv_bytes_per_token")) {
      replica.kv_bytes_per_token = pool.of("kv_bytes_per_token").number("kv_bytes_per_token");
    }
    replica.name = "step_cost";
    const std::int64_t count = pool.given("replicas") ? pool.of("replicas").integer("replicas") : 1;
    replicas.assign(static_cast<std::size_t>(count), replica);
    if (result.source.empty()) result.source = "step times given by the script";
  } else {
    for (PipelinePlan& plan : plans_at(L, pool, result)) {
      replicas.push_back(
          replica_of(plan, engine, blocks_given, kv_blocks, context, pool.own().path()));
      const double api_s = plan.problem.serving()->kernel_set.api_s;
      result.deployment.api_s = std::max(result.deployment.api_s, api_s);
      result.source =
          fmt::format("step times {} for {}, kernel set {}", name_of(plan.provenance),
                      plan.problem.serving()->model.name, plan.problem.serving()->kernel_set.name);
      result.plans.push_back(std::move(plan));
    }
  }
  for (Replica& replica : replicas) {
    replica.role = role;
    replica.make_scheduler = serving_lua::scheduler_maker(L);
    const auto number = [&](const char* name, double& value) {
      if (pool.given(name)) value = pool.of(name).number(name);
    };
    number("usd_per_h", replica.usd_per_h);
    number("idle_w", replica.idle_w);
    number("busy_w", replica.busy_w);
    result.deployment.replicas.push_back(std::move(replica));
  }
}

void read_transfer(lua_State* L, const lua_kit::Options& options, DeploymentObject& result) {
  if (!options.push("transfer")) return lua_pop(L, 1);
  const lua_kit::Options transfer(L, lua_gettop(L), transfer_options(),
                                  options.path_of("transfer"));
  serving::KvTransfer& t = result.deployment.transfer;
  t.bytes_per_s = transfer.given("link_gbps") ? transfer.number("link_gbps") * 1e9 / 8
                                              : transfer.number("bytes_per_s");
  t.latency_s = transfer.number("latency_s");
  t.per_layer = transfer.boolean("per_layer");
  if (!result.plans.empty()) {
    t.num_layers = result.plans.front().problem.serving()->model.num_layers;
  }
  lua_pop(L, 1);
}

std::shared_ptr<DeploymentObject> deployment_at(lua_State* L, int index, const std::string& path) {
  const lua_kit::Options options(L, index, deployment_options(), path);
  auto result = std::make_shared<DeploymentObject>();
  PoolContext context;
  if (options.push("draft")) {
    const Plan& plan = *lua_kit::check_object<Plan>(L, -1, options.path_of("draft"));
    context.draft = solver::make_step_cost(pipeline_of(plan, options.path_of("draft")), {});
  }
  lua_pop(L, 1);
  if (options.push("pools")) {
    const int pools = lua_gettop(L);
    lua_kit::for_each_item(
        L, pools, options.path_of("pools"), [&](std::size_t, const std::string& item) {
          const lua_kit::Options pool(L, lua_gettop(L), one_pool_options(), item);
          read_pool(L, {pool, &options}, *named<Role>(pool.choice("role")), *result, context);
        });
    serving::check_roles(result->deployment, options.path_of("pools"));
    result->plan.reset();  // of several pools there is none
  } else {
    read_pool(L, {options, nullptr}, Role::mixed, *result, context);
  }
  lua_pop(L, 1);
  if (options.push("router")) {
    serving_lua::read_router(L, lua_gettop(L), options.path_of("router"), result->deployment);
  }
  lua_pop(L, 1);
  read_transfer(L, options, *result);
  const bool api_given = options.given("api_s");
  if (api_given) result->deployment.api_s = options.number("api_s");
  if (const double api_s = result->deployment.api_s; api_s > 0) {
    result->source += fmt::format("; {} of client and server a request, {}", format_seconds(api_s),
                                  api_given ? "given" : "the kernel set's");
  }
  for (const Replica& replica : result->deployment.replicas) {  // so that a wrong name is told now
    const serving::EngineOptions& engine = replica.engine;
    const std::string note = replica
                                 .make_scheduler(engine, {.num_blocks = 1,
                                                          .block_size = engine.block_size,
                                                          .allocation = engine.kv_allocation,
                                                          .host_blocks = engine.swap_space_gib > 0})
                                 ->note();
    const bool known =
        std::find(result->notes.begin(), result->notes.end(), note) != result->notes.end();
    if (!note.empty() && !known) result->notes.push_back(note);
  }
  return result;
}

std::string describe(const DeploymentObject& d) {
  std::string text = fmt::format("deployment: {} engine{}", d.deployment.replicas.size(),
                                 d.deployment.replicas.size() == 1 ? "" : "s");
  if (d.deployment.replicas.size() > 1) text += ", router " + d.deployment.router.name;
  return text + (d.source.empty() ? "" : "; " + d.source);
}

std::string describe_fully(const DeploymentObject& d) {
  std::string text = describe(d) + "\n";
  for (std::size_t i = 0; i < d.deployment.replicas.size(); ++i) {
    const Replica& r = d.deployment.replicas[i];
    text += fmt::format(
        "  {}  {:8} {}  {}{}, {} requests, {} tokens a step; KV cache {}\n", i, name_of(r.role),
        r.name, r.engine.scheduler,
        r.engine.async_scheduling.value_or(false) ? " (async_scheduling)" : "",
        r.engine.max_num_seqs, r.engine.max_num_batched_tokens,
        r.kv_blocks > 0 ? fmt::format("{} blocks of {} tokens", r.kv_blocks, r.engine.block_size)
                        : "as large as needed");
  }
  for (const std::string& note : d.notes) text += "  note: " + note + "\n";
  return text;
}

void push_engines(lua_State* L, const DeploymentObject& d) {
  lua_createtable(L, static_cast<int>(d.deployment.replicas.size()), 0);
  for (std::size_t i = 0; i < d.deployment.replicas.size(); ++i) {
    const Replica& r = d.deployment.replicas[i];
    lua_createtable(L, 0, 8);
    lua_kit::set_text(L, "name", r.name);
    lua_kit::set_text(L, "role", name_of(r.role));
    lua_kit::set_text(L, "scheduler", r.engine.scheduler);
    lua_kit::set_integer(L, "kv_blocks", r.kv_blocks);
    lua_kit::set_integer(L, "kv_tokens", r.kv_blocks * r.engine.block_size);
    lua_kit::set_integer(L, "num_stages", static_cast<std::int64_t>(r.cost->num_stages()));
    lua_kit::set_boolean(L, "async_scheduling", r.engine.async_scheduling.value_or(false));
    lua_kit::set_number(L, "usd_per_h", r.usd_per_h);
    lua_kit::set_number(L, "kv_bytes_per_token", r.kv_bytes_per_token);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
}

/// What a step takes on the first engine, for a look at prices.
int step_s(lua_State* L) {
  const auto& d = *lua_kit::check_object<DeploymentObject>(L, 1, "deployment");
  const lua_kit::Options options(L, 2, step_options(), "deployment:step_s");
  serving::StepLoad load;
  const std::int64_t decodes = options.integer("num_decodes");
  load.num_decodes = load.decode_tokens = decodes;
  load.decode_context_tokens = decodes * options.integer("context_tokens");
  load.num_requests = load.tokens = load.num_sampled = decodes;
  load.context_tokens = load.decode_context_tokens;
  for (std::int64_t i = 0; i < options.integer("num_prompts"); ++i) {
    load.chunks.push_back(
        {options.integer("prompt_tokens"), options.integer("prompt_context_tokens")});
    load.tokens += load.chunks.back().tokens;
    load.context_tokens += load.chunks.back().context_tokens;
    ++load.num_requests;
    ++load.num_sampled;
  }
  const serving::StepCost& cost = *d.deployment.replicas.front().cost;
  serving::Ticks ticks = 0;
  for (std::size_t k = 0; k < cost.num_stages(); ++k) {
    ticks += cost.stage(load, k) + (k + 1 < cost.num_stages() ? cost.hop(load, k) : 0);
  }
  lua_pushnumber(L, serving::to_seconds(ticks));
  return 1;
}

}  // namespace

int new_deployment(lua_State* L) {
  if (lua_kit::test_object<DeploymentObject>(L, 1) != nullptr) {
    lua_settop(L, 1);
    return 1;
  }
  lua_kit::push_object<DeploymentObject>(L, deployment_at(L, 1, "ts.deployment"));
  return 1;
}

void fill_kv_blocks(Deployment& deployment, const serving::Traffic& traffic) {
  constexpr std::int64_t kMostNamedBlocks = 1 << 22;
  for (Replica& replica : deployment.replicas) {
    if (replica.kv_blocks > 0) continue;
    std::int64_t all = 0, largest = 0;
    for (const serving::Request& r : traffic.requests) {
      const std::int64_t most =
          std::max(r.prompt_tokens + std::max(r.output_tokens, r.max_tokens),
                   replica.engine.kv_allocation == serving::KvAllocation::maximum
                       ? replica.engine.max_model_len
                       : 0);
      const std::int64_t blocks = ceil_div(most, replica.engine.block_size) + 1;
      all += blocks;
      largest = std::max(largest, blocks);
    }
    replica.kv_blocks = all + 1;
    if (replica.engine.enable_prefix_caching) {
      replica.kv_blocks = std::max(largest, std::min(all + 1, kMostNamedBlocks));
    }
  }
}

void register_deployment(lua_State* L) {
  lua_kit::register_object<DeploymentObject>(L);
  lua_kit::Reference& reference = core_lua::environment(L).reference;
  reference.add_object<DeploymentObject>();
  reference.add(deployment_options());
  reference.add(one_pool_options());
  reference.add(transfer_options());
  reference.add(step_options());
}

}  // namespace solver_lua

template <>
const lua_kit::ObjectType<DeploymentObject>& lua_kit::object_type<DeploymentObject>() {
  using D = DeploymentObject;
  static const ObjectType<D> type{
      .name = "tessera.Deployment",
      .doc = "Engines that serve together.",
      .fields = {{"replicas", "table[]",
                  "Engines: name, role, scheduler, async_scheduling, kv_blocks, kv_tokens, "
                  "num_stages, usd_per_h, "
                  "kv_bytes_per_token",
                  [](lua_State* L, const D& d) { solver_lua::push_engines(L, d); }},
                 {"router", "string", "Rule that chooses an engine",
                  [](lua_State* L, const D& d) { push_text(L, d.deployment.router.name); }},
                 {"plan", "tessera.Plan?", "What runs, where there is a model and one pool",
                  [](lua_State* L, const D& d) {
                    if (d.plan) {
                      solver_lua::push_plan(L, *d.plan);
                    } else {
                      lua_pushnil(L);
                    }
                  }},
                 {"source", "string", "Where the step times come from",
                  [](lua_State* L, const D& d) { push_text(L, d.source); }},
                 {"notes", "string[]", "What else matters",
                  [](lua_State* L, const D& d) { push_texts(L, d.notes); }}},
      .methods = {{"step_s", guarded<solver_lua::step_s>, "(options: table): number",
                   "Time of a step on the first engine (s); options num_decodes, context_tokens, "
                   "num_prompts, prompt_tokens, prompt_context_tokens"}},
      .summary = solver_lua::describe,
      .describe = solver_lua::describe_fully};
  return type;
}

}  // namespace tessera
