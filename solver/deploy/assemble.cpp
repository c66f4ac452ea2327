#include "tessera/solver/deploy/assemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/solver/plan/build_plan.h"
#include "tessera/solver/problem/quality_bound.h"
#include "tessera/solver/serving/deployment_plans.h"
#include "tessera/solver/serving/kv_capacity.h"

namespace tessera::solver {
namespace {

using serving::EngineOptions;
using serving::Replica;

/// What a script said of a pool in more than one way.
void check_sources(const PoolOptions& pool, const std::string& path) {
  const bool has_plan = pool.plan != nullptr;
  if (!has_plan && pool.step_cost == nullptr) {
    if (pool.model == nullptr) {
      refuse(path + ".model", "give plan, or model and cluster, or step_cost");
    }
    if (pool.cluster == nullptr) {
      refuse(path + ".cluster", "give plan, or model and cluster, or step_cost");
    }
    return;
  }
  // The host's time is of engines that are made of a model and a cluster here.
  const std::pair<const char*, bool> host[] = {
      {"host_step_s", pool.host_step_s.has_value()},
      {"host_sequence_s", pool.host_sequence_s.has_value()},
      {"host_prompt_s", pool.host_prompt_s.has_value()}};
  for (const auto& [name, given] : host) {
    if (!given) continue;
    refuse(path + "." + name, "{}; give model and cluster to set it",
           pool.step_cost ? "step_cost says all that a step takes" : "a plan has its kernel set's");
  }
  if (pool.step_cost && has_plan) {
    refuse(path + ".plan", "step_cost says what a step takes; give one or the other");
  }
  const std::pair<const char*, bool> others[] = {{"model", pool.model != nullptr},
                                                 {"cluster", pool.cluster != nullptr}};
  for (const auto& [name, given] : others) {
    if (!given) continue;
    if (pool.step_cost) {
      refuse(path + "." + name, "step_cost says what a step takes; give one or the other");
    }
    refuse(path + "." + name, "the plan has a {} already; give one or the other", name);
  }
}

/// The plans of a pool's engines; what it runs as one plan goes into `whole`.
std::vector<PipelinePlan> plans_of(const PoolOptions& pool, const DataFolders& folders,
                                   std::optional<Plan>& whole) {
  if (pool.plan) {
    whole = *pool.plan;
    if (const auto* one = std::get_if<PipelinePlan>(pool.plan.get())) return {*one};
    return std::get<ReplicatedPlan>(*pool.plan).replicas;
  }
  Problem problem = deployment_problem(*pool.model, *pool.cluster, pool.bitwidths, pool.kv_bitwidth,
                                       pool.kernel_set, folders);
  set_quality(problem, folders);
  cost::KernelSet& kernels = problem.serving()->kernel_set;
  kernels.host_step_s = pool.host_step_s.value_or(kernels.host_step_s);
  kernels.host_sequence_s = pool.host_sequence_s.value_or(kernels.host_sequence_s);
  kernels.host_prompt_s = pool.host_prompt_s.value_or(kernels.host_prompt_s);
  std::vector<PipelinePlan> plans =
      deployment_plans(problem, {.tensor_parallel = pool.tensor_parallel,
                                 .pipeline_parallel = pool.pipeline_parallel,
                                 .replicas = pool.replicas,
                                 .bitwidths = pool.bitwidths});
  if (plans.size() == 1 && std::ssize(*plans[0].devices) == std::ssize(pool.cluster->devices)) {
    PipelinePlan one = plans.front();
    one.devices.reset();
    whole = std::move(one);
  } else {
    problem.serving()->workload.batch_size = std::ssize(plans);
    whole = join_replicas(problem, plans, "manual");
  }
  return plans;
}

double price_of(const PipelinePlan& plan) {
  double price = 0;
  for (const ClusterDevice& slot : plan.problem.serving()->cluster.devices) {
    price += slot.device.price_usd_per_h.value_or(0);
  }
  return price;
}

std::string name_of_plan(const PipelinePlan& plan) {
  std::vector<std::string> parts;
  for (const PlanStage& stage : plan.stages) {
    if (parts.empty() || parts.back() != stage.device) parts.push_back(stage.device);
  }
  return join(parts, "+");
}

/// As the kernel set's runtime has it, where nobody says and it can.
void decide_ahead(EngineOptions& engine, const ServingProblem& problem, std::size_t num_stages,
                  const std::string& path) {
  const std::string why_not = serving::why_step_by_step(engine, num_stages);
  if (!engine.async_scheduling) {
    engine.async_scheduling = why_not.empty() && problem.kernel_set.async_scheduling;
  } else if (*engine.async_scheduling && !why_not.empty()) {
    refuse(path + ".engine.async_scheduling", "{}", why_not);
  }
}

Replica replica_of(const PipelinePlan& plan, const PoolOptions& pool,
                   const StepCostOptions& pricing, const std::string& path) {
  const ServingProblem* serving = plan.problem.serving();
  if (serving == nullptr) {
    refuse(path, "the plan of an abstract instance knows no model; give a plan of one");
  }
  Replica replica;
  EngineOptions engine = pool.engine;
  if (engine.max_model_len == 0) engine.max_model_len = serving->model.max_context_tokens;
  const KvCapacity capacity = kv_capacity(plan, engine);
  replica.kv_blocks = pool.kv_blocks.value_or(engine.kv_blocks.value_or(capacity.blocks));
  if (replica.kv_blocks <= 0) refuse(path, "{}", capacity.why_not);
  decide_ahead(engine, *serving, plan.stages.size(), path);
  replica.name = name_of_plan(plan);
  replica.kv_bytes_per_token = serving->model.kv_bytes_per_token(kv_bitwidth_of(plan, engine));
  replica.cost = make_step_cost(plan, engine, pricing);
  replica.usd_per_h = price_of(plan);
  replica.engine = std::move(engine);
  return replica;
}

/// Engines whose steps take what the script says.
std::vector<Replica> replicas_without_model(const PoolOptions& pool) {
  Replica replica;
  replica.cost = pool.step_cost;
  replica.kv_blocks = pool.kv_blocks.value_or(pool.engine.kv_blocks.value_or(0));
  replica.engine = pool.engine;
  replica.kv_bytes_per_token = pool.kv_bytes_per_token.value_or(0);
  replica.name = "step_cost";
  return {static_cast<std::size_t>(pool.replicas.value_or(1)), replica};
}

class Assembly {
 public:
  Assembly(const DeploymentOptions& options, const DataFolders& folders)
      : options_(options), folders_(folders) {
    pricing_.prices = options.prices ? options.prices : std::make_shared<cost::PriceCache>();
    if (options.draft) pricing_.draft = make_step_cost(*options.draft, {});
  }

  void add(const PoolOptions& pool, const std::string& path) {
    check_sources(pool, path);
    std::vector<Replica> replicas =
        pool.step_cost ? replicas_without_model(pool) : planned(pool, path);
    if (result_.source.empty()) result_.source = "step times given by the script";
    for (Replica& replica : replicas) {
      replica.role = pool.role;
      replica.make_scheduler = options_.make_scheduler;
      replica.usd_per_h = pool.usd_per_h.value_or(replica.usd_per_h);
      replica.idle_w = pool.idle_w.value_or(0);
      replica.busy_w = pool.busy_w.value_or(0);
      result_.deployment.replicas.push_back(std::move(replica));
    }
  }

  AssembledDeployment finish() {
    result_.deployment.router = options_.router;
    result_.deployment.make_router = options_.make_router;
    result_.deployment.transfer = options_.transfer;
    if (!result_.plans.empty()) {
      result_.deployment.transfer.num_layers =
          result_.plans.front().problem.serving()->model.num_layers;
    }
    add_api_s();
    add_notes();
    return std::move(result_);
  }

  AssembledDeployment& result() { return result_; }

 private:
  std::vector<Replica> planned(const PoolOptions& pool, const std::string& path) {
    std::vector<Replica> replicas;
    for (PipelinePlan& plan : plans_of(pool, folders_, result_.plan)) {
      replicas.push_back(replica_of(plan, pool, pricing_, path));
      const ServingProblem& serving = *plan.problem.serving();
      result_.deployment.api_s = std::max(result_.deployment.api_s, serving.kernel_set.api_s);
      result_.source = fmt::format("step times {} for {}, kernel set {}", name_of(plan.provenance),
                                   serving.model.name, serving.kernel_set.name);
      result_.plans.push_back(std::move(plan));
    }
    return replicas;
  }

  void add_api_s() {
    double& api_s = result_.deployment.api_s;
    api_s = options_.api_s.value_or(api_s);
    if (api_s <= 0) return;
    result_.source += fmt::format("; {} of client and server a request, {}", format_seconds(api_s),
                                  options_.api_s ? "given" : "the kernel set's");
  }

  /// What schedulers have to say of their engines; a wrong name is told here, too.
  void add_notes() {
    for (const Replica& replica : result_.deployment.replicas) {
      const EngineOptions& engine = replica.engine;
      const std::string note =
          replica
              .make_scheduler(engine, {.num_blocks = 1,
                                       .block_size = engine.block_size,
                                       .allocation = engine.kv_allocation,
                                       .host_blocks = engine.swap_space_gib > 0})
              ->note();
      const bool known =
          std::find(result_.notes.begin(), result_.notes.end(), note) != result_.notes.end();
      if (!note.empty() && !known) result_.notes.push_back(note);
    }
  }

  const DeploymentOptions& options_;
  const DataFolders& folders_;
  StepCostOptions pricing_;
  AssembledDeployment result_;
};

}  // namespace

AssembledDeployment assemble(const DeploymentOptions& options, const DataFolders& folders,
                             const std::string& path) {
  Assembly assembly(options, folders);
  if (!options.pools) {
    assembly.add(options.pool, path);
    return assembly.finish();
  }
  for (std::size_t i = 0; i < options.pools->size(); ++i) {
    assembly.add((*options.pools)[i], fmt::format("{}.pools[{}]", path, i + 1));
  }
  serving::check_roles(assembly.result().deployment, path + ".pools");
  assembly.result().plan.reset();
  return assembly.finish();
}

serving::SummaryOptions summary_options(const AssembledDeployment& deployment,
                                        const serving::Traffic& traffic) {
  serving::SummaryOptions summary;
  summary.block_size = deployment.deployment.replicas.front().engine.block_size;
  summary.source = deployment.source;
  for (const serving::Request& r : traffic.requests) {
    summary.slo_classes.push_back(r.slo_class);
    summary.prompt_tokens.push_back(r.prompt_tokens);
  }
  return summary;
}

}  // namespace tessera::solver
