#include "tessera/solver/deploy/assemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/cost/auto_kernel_set.h"
#include "tessera/cost/tensor_parallel.h"
#include "tessera/serving/models.h"
#include "tessera/solver/problem/quality_bound.h"
#include "tessera/solver/serving/deployment_plans.h"
#include "tessera/solver/serving/kv_capacity.h"
#include "tessera/solver/serving/place.h"

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
  // The host's time and kernels are of engines that are made of a model and a cluster here.
  const std::pair<const char*, bool> priced[] = {
      {"host_step_s", pool.host_step_s.has_value()},
      {"host_sequence_s", pool.host_sequence_s.has_value()},
      {"host_prompt_s", pool.host_prompt_s.has_value()},
      {"tuned", pool.tuned.has_value()}};
  for (const auto& [name, given] : priced) {
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

cost::GroupSplit split_of(const PoolOptions& pool) {
  return {.attention_data_parallel = pool.attention_data_parallel,
          .expert_parallel = pool.expert_parallel};
}

/// Engines that divide layers in no other way than tensor parallelism are named.
void check_split(const PoolOptions& pool, const cost::KernelSet& kernels, const std::string& path) {
  const cost::GroupSplit split = split_of(pool);
  if (split.is_plain()) return;
  const std::string at =
      path + (split.expert_parallel > 1 ? ".expert_parallel" : ".attention_data_parallel");
  const std::string& scheduler = pool.engine.scheduler;
  const bool is_old =
      scheduler == "vllm_v0" || kernels.name == "vllm_v0" || kernels.name == "vllm_2024";
  if (is_old || kernels.gguf) {
    refuse(at, "{} neither spreads experts over devices nor cuts attention into parts; leave it 1",
           kernels.gguf ? "llama.cpp" : "vllm_v0");
  }
  if (scheduler != "vllm_v1" && scheduler != "sglang") {
    refuse(at, "nobody has run the scheduler {} so; vllm_v1 and sglang have it", scheduler);
  }
  const auto why = cost::why_not_sharded(*pool.model, pool.tensor_parallel, split);
  if (why)
    refuse(at, "{} with tensor_parallel {}: {}", pool.model->name, pool.tensor_parallel, *why);
}

/// What prices a pool of a model on a cluster.
std::shared_ptr<const cost::PricingContext> context_of(const PoolOptions& pool,
                                                       const DataFolders& folders,
                                                       const std::string& path) {
  auto context = std::make_shared<cost::PricingContext>(
      cost::pricing_context(*pool.model, *pool.cluster, pool.bitwidths, pool.kernel_set, folders));
  check_split(pool, context->kernel_set, path);
  context->split = split_of(pool);
  cost::KernelSet& kernels = context->kernel_set;
  kernels.host_step_s = pool.host_step_s.value_or(kernels.host_step_s);
  if (pool.host_sequence_s) {
    kernels.host_sequence_s = *pool.host_sequence_s;
    kernels.serial_host_sequence_s.reset();
  }
  kernels.host_prompt_s = pool.host_prompt_s.value_or(kernels.host_prompt_s);
  if (pool.tuned) kernels.tuned_experts = pool.tuned;
  return context;
}

DeploymentShape shape_of(const PoolOptions& pool) {
  return {.tensor_parallel = pool.tensor_parallel,
          .pipeline_parallel = pool.pipeline_parallel,
          .split = split_of(pool),
          .replicas = pool.replicas,
          .bitwidths = pool.bitwidths,
          .kv_bitwidth = pool.kv_bitwidth,
          .role = pool.role,
          .stage_layers = pool.stage_layers};
}

std::vector<std::int32_t> bitwidths_of(const PlacedEngine& engine) {
  std::vector<std::int32_t> bitwidths;
  for (const PlacedStage& stage : engine.stages) {
    bitwidths.insert(bitwidths.end(), stage.bitwidths.begin(), stage.bitwidths.end());
  }
  return bitwidths;
}

/// "2xL4+A100-40G"
std::string name_of_engine(const PricedEngine& priced) {
  std::vector<std::string> parts;
  for (std::size_t k = 0; k < priced.stages.size(); ++k) {
    std::string part = priced.stage_name(k);
    if (parts.empty() || parts.back() != part) parts.push_back(std::move(part));
  }
  return join(parts, "+");
}

/// As the kernel set's runtime has it, where nobody says and it can.
void decide_ahead(EngineOptions& engine, const PricedEngine& priced, const std::string& path) {
  const std::string why_not = serving::why_step_by_step(engine, priced.stages.size());
  if (!engine.async_scheduling) {
    engine.async_scheduling = why_not.empty() && priced.context.kernel_set.async_scheduling;
  } else if (*engine.async_scheduling && !why_not.empty()) {
    refuse(path + ".engine.async_scheduling", "{}", why_not);
  }
}

Replica replica_of(const PricedEngine& priced, const PoolOptions& pool,
                   const StepCostOptions& pricing, const std::string& path) {
  const ModelShape& model = priced.context.model;
  Replica replica;
  EngineOptions engine = pool.engine;
  if (engine.max_model_len == 0) engine.max_model_len = model.max_context_tokens;
  const KvCapacity capacity = kv_capacity(priced, engine);
  replica.kv_blocks = pool.kv_blocks.value_or(engine.kv_blocks.value_or(capacity.blocks));
  if (replica.kv_blocks <= 0) throw DoesNotFit(path, capacity.why_not, capacity.missing_bytes);
  decide_ahead(engine, priced, path);
  // Of a prefix, only keys and values could be found again, not what became of the state.
  if (model.has_state()) engine.enable_prefix_caching = false;
  replica.name = name_of_engine(priced);
  replica.kv_bytes_per_token = model.kv_bytes_per_token(kv_bitwidth_of(priced, engine));
  replica.cost = make_step_cost(priced, engine, pricing);
  engine.gpu_memory_utilization = gpu_memory_utilization(engine);
  replica.usd_per_h = priced.usd_per_h();
  replica.engine = std::move(engine);
  return replica;
}

/// [stage] the devices of an engine, as many each.
std::vector<std::vector<std::int32_t>> stages_of(const std::vector<std::int32_t>& devices,
                                                 std::size_t num_stages, const std::string& path) {
  if (devices.size() % num_stages != 0) {
    refuse(path + ".devices", "{} devices for {} stages; give as many for each", devices.size(),
           num_stages);
  }
  std::vector<std::vector<std::int32_t>> stages;
  const auto each = static_cast<std::ptrdiff_t>(devices.size() / num_stages);
  for (auto at = devices.begin(); at != devices.end(); at += each)
    stages.emplace_back(at, at + each);
  return stages;
}

cost::RunClass run_class_of(const PricedEngine& priced, Provenance weakest) {
  const cost::KernelSet& kernels = priced.context.kernel_set;
  std::int32_t bitwidth = 16;
  for (const cost::Stage& stage : priced.stages) {
    for (const auto& [kind, number] : stage.layers) bitwidth = std::min(bitwidth, kind.bitwidth);
  }
  return {kernels.name, kernels.runtime, weakest <= Provenance::fitted, bitwidth};
}

/// What two have in common.
cost::RunClass joined(cost::RunClass a, const cost::RunClass& b) {
  if (a.kernel_set != b.kernel_set) a.kernel_set.clear();
  if (a.runtime != b.runtime) a.runtime.clear();
  a.measured_chip = *a.measured_chip && *b.measured_chip;
  a.bitwidth = std::min(a.bitwidth, b.bitwidth);
  return a;
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
    if (pool.step_cost) {
      has_script_costs_ = true;
      for (Replica& replica : replicas_without_model(pool)) add(std::move(replica), pool, path);
      if (result_.source.empty()) result_.source = "step times given by the script";
    } else if (pool.plan) {
      add_plan(pool, path);
    } else {
      add_model(pool, path);
    }
  }

  AssembledDeployment finish() {
    result_.deployment.router = options_.router;
    result_.deployment.make_router = options_.make_router;
    result_.deployment.transfer = options_.transfer;
    if (num_layers_) result_.deployment.transfer.num_layers = *num_layers_;
    add_api_s();
    add_notes();
    add_intervals();
    return std::move(result_);
  }

  AssembledDeployment& result() { return result_; }

 private:
  void add(Replica replica, const PoolOptions& pool, const std::string& path) {
    replica.role = pool.role;
    replica.make_scheduler = options_.make_scheduler;
    replica.usd_per_h = pool.usd_per_h.value_or(replica.usd_per_h);
    replica.idle_w = pool.idle_w.value_or(0);
    replica.busy_w = pool.busy_w.value_or(0);
    replica.share = pool.share;
    replica.devices = stages_of(pool.devices, replica.cost->num_stages(), path);
    replica.from_s = pool.from_s;
    replica.until_s = pool.until_s;
    replica.drops = pool.drops;
    result_.deployment.replicas.push_back(std::move(replica));
  }

  void add(const PricedEngine& priced, const PoolOptions& pool, const std::string& path) {
    add(replica_of(priced, pool, pricing_, path), pool, path);
    const cost::PricingContext& context = priced.context;
    if (context.model.has_state() && pool.engine.enable_prefix_caching) {
      add_note(
          fmt::format("prefixes are not cached: {} keeps {} of state a sequence, which keys and "
                      "values that are found do not bring back",
                      context.model.name, format_bytes(context.model.state_bytes_per_sequence())));
    }
    if (context.model.has_state() && pool.role != serving::Role::mixed) {
      add_note(
          fmt::format("what moves between pools is keys and values; {} of state a request is "
                      "not counted",
                      format_bytes(context.model.state_bytes_per_sequence())));
    }
    if (!num_layers_) num_layers_ = context.model.num_layers;
    result_.deployment.api_s = std::max(result_.deployment.api_s, context.kernel_set.api_s);
    const Provenance weakest = priced.provenance();
    const cost::RunClass own = run_class_of(priced, weakest);
    result_.run_class = result_.run_class ? joined(*result_.run_class, own) : own;
    result_.source = fmt::format("step times {} for {}, kernel set {}", name_of(weakest),
                                 context.model.name, context.kernel_set.name);
    if (const std::string borrowed = cost::borrowed_forms(context); !borrowed.empty()) {
      result_.source += ", " + borrowed;
    }
    const auto& runs = context.kernel_set.recalibration;
    if (runs && runs->ran_on(context.device(priced.stages.front().members.front()))) {
      result_.source += ", corrected: " + runs->text();
    }
  }

  void add_plan(const PoolOptions& pool, const std::string& path) {
    result_.given = pool.plan;
    result_.quality = summary_of(*pool.plan).quality;
    if (const auto* one = std::get_if<PipelinePlan>(pool.plan.get())) return add(*one, pool, path);
    const auto& whole = std::get<ReplicatedPlan>(*pool.plan);
    const auto batch_size = [](const PlanSummary& plan) {
      return static_cast<double>(plan.problem.batch()->workload.batch_size);
    };
    const double mean = batch_size(whole) / static_cast<double>(whole.replicas.size());
    for (const PipelinePlan& each : whole.replicas) {
      add(each, pool, path);
      result_.deployment.replicas.back().share *= batch_size(each) / mean;
    }
  }

  void add_model(const PoolOptions& pool, const std::string& path) {
    const auto context = context_of(pool, folders_, path);
    Placement placement = place(context->model, context->cluster, shape_of(pool));
    for (const PlacedEngine& engine : placement.engines) {
      add(PricedEngine(*context, placement, engine), pool, path);
    }
    result_.context = context;
    result_.quality = published_quality_of(*context, bitwidths_of(placement.engines.front()),
                                           pool.kv_bitwidth, folders_);
    result_.placement = std::move(placement);
  }

  void add_api_s() {
    double& api_s = result_.deployment.api_s;
    api_s = options_.api_s.value_or(api_s);
    if (api_s <= 0) return;
    result_.source += fmt::format("; {} of client and server a request, {}", format_seconds(api_s),
                                  options_.api_s ? "given" : "the kernel set's");
  }

  void add_note(const std::string& note) {
    std::vector<std::string>& notes = result_.notes;
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
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
      if (!note.empty()) add_note(note);
    }
  }

  void add_intervals() {
    if (has_script_costs_) result_.run_class.reset();
    if (result_.run_class) result_.intervals = cost::intervals_of(*result_.run_class, folders_);
  }

  const DeploymentOptions& options_;
  const DataFolders& folders_;
  StepCostOptions pricing_;
  bool has_script_costs_ = false;
  std::optional<std::int64_t> num_layers_;  ///< of the first model
  AssembledDeployment result_;
};

}  // namespace

AssembledDeployment assemble(const DeploymentOptions& options, const DataFolders& folders,
                             const std::string& path) {
  Assembly assembly(options, folders);
  if (!options.pools) {
    assembly.add(options.pool, path);
    serving::check_roles(assembly.result().deployment, path);
    return assembly.finish();
  }
  for (std::size_t i = 0; i < options.pools->size(); ++i) {
    assembly.add((*options.pools)[i], fmt::format("{}.pools[{}]", path, i + 1));
  }
  serving::check_roles(assembly.result().deployment, path + ".pools");
  AssembledDeployment made = assembly.finish();
  made.given.reset();
  made.context.reset();
  made.placement.reset();
  made.quality.reset();
  return made;
}

std::optional<Plan> plan_of(const AssembledDeployment& deployment, const DataFolders& folders) {
  if (deployment.given) return *deployment.given;
  if (!deployment.placement) return std::nullopt;
  return deployment_plan(*deployment.context, *deployment.placement, folders);
}

serving::SummaryOptions summary_options(const AssembledDeployment& deployment,
                                        const serving::Traffic& traffic) {
  serving::SummaryOptions summary;
  const std::vector<serving::Replica>& replicas = deployment.deployment.replicas;
  if (!replicas.empty()) summary.block_size = replicas.front().engine.block_size;
  summary.source = deployment.source;
  summary.intervals = deployment.intervals;
  summary.slos = deployment.model_slos;
  std::vector<std::int32_t> numbers;
  if (!summary.slos.empty()) {
    numbers = serving::model_numbers(*deployment.deployment.models, traffic);
  }
  for (const serving::Request& r : traffic.requests) {
    const bool by_model = !summary.slos.empty();
    summary.slo_classes.push_back(!by_model     ? r.slo_class
                                  : r.model < 0 ? 0
                                                : numbers[static_cast<std::size_t>(r.model)]);
    summary.prompt_tokens.push_back(r.prompt_tokens);
  }
  return summary;
}

}  // namespace tessera::solver
