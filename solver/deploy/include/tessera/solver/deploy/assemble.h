#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/cluster.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/placement.h"
#include "tessera/core/quality.h"
#include "tessera/core/record.h"
#include "tessera/core/record_json.h"
#include "tessera/cost/prediction_interval.h"
#include "tessera/serving/deployment.h"
#include "tessera/serving/engine_options.h"
#include "tessera/serving/step_cost.h"
#include "tessera/serving/summary.h"
#include "tessera/serving/traffic.h"
#include "tessera/solver/plan/plan.h"
#include "tessera/solver/serving/step_cost.h"

/// Deployments put together: engines with the prices of their steps, their KV caches, and what
/// stands between them.
namespace tessera::solver {

/// Engines of one role. They are of a plan, of a model on a cluster, or of the times of their steps
/// without a model.
struct PoolOptions {
  serving::Role role = serving::Role::mixed;
  std::shared_ptr<const Plan> plan;  ///< each of its replicas an engine
  std::shared_ptr<const ModelShape> model;
  std::shared_ptr<const Cluster> cluster;
  std::int64_t tensor_parallel = 1, pipeline_parallel = 1;
  std::int64_t expert_parallel = 1, attention_data_parallel = 1;
  std::vector<std::int64_t> stage_layers;  ///< empty: as vLLM spreads them
  std::optional<std::int64_t> replicas;
  std::vector<std::int32_t> bitwidths = {16};  ///< of all layers, or of each
  std::int32_t kv_bitwidth = 16;
  std::string kernel_set = "auto";
  std::optional<double> host_step_s, host_sequence_s, host_prompt_s;
  std::optional<bool> tuned;
  serving::EngineOptions engine;
  std::shared_ptr<const serving::StepCost> step_cost;
  std::optional<std::int64_t> kv_blocks;
  std::optional<double> kv_bytes_per_token, usd_per_h, idle_w, busy_w;
  /// Of each engine, stage by stage, as many each; empty: its own.
  std::vector<std::int32_t> devices;
  double share = 1;  ///< of the requests under way, for each, against engines of other pools
  double from_s = 0;
  std::optional<double> until_s;
  bool drops = false;
};

/// An engine whose memory holds no block of a KV cache beside its weights.
class DoesNotFit : public Error {
 public:
  DoesNotFit(const std::string& path, const std::string& what, double missing_bytes)
      : Error(ErrorCode::invalid_argument, path + ": " + what, path),
        missing_bytes_(missing_bytes) {}
  double missing_bytes() const { return missing_bytes_; }

 private:
  double missing_bytes_;
};

/// Engines that serve together.
struct DeploymentOptions {
  PoolOptions pool;                                              ///< the only one
  std::optional<std::vector<PoolOptions>> pools = std::nullopt;  ///< in its place
  std::shared_ptr<const PipelinePlan> draft;
  serving::RouterOptions router;
  serving::MakeRouter make_router = serving::make_router;
  serving::MakeScheduler make_scheduler = serving::Replica::make_scheduler_of_engine;
  std::optional<double> api_s;
  serving::KvTransfer transfer;
  /// Shared with other deployments that the same profiles price; null: its own.
  std::shared_ptr<cost::PriceCache> prices;
};

struct AssembledDeployment {
  serving::Deployment deployment;
  std::string source;  ///< where its step times come from
  std::vector<std::string> notes;
  std::optional<cost::RunClass> run_class;  ///< of all its engines; absent: costs of a script
  std::vector<cost::PredictionInterval> intervals;  ///< of this class
  std::vector<serving::Slo> model_slos;  ///< of several models, each; empty: none has any

  // Of the only pool, where it has a model.
  std::shared_ptr<const Plan> given;  ///< that it is made of; null: of a model on a cluster
  std::shared_ptr<const cost::PricingContext> context;  ///< null with `given`
  std::optional<Placement> placement;                   ///< on the context's cluster
  std::optional<Quality> quality;                       ///< what it does to the model

  const std::vector<serving::Replica>& replicas() const { return deployment.replicas; }
  const std::string& router() const { return deployment.router.name; }
};

/// @param path names the options in errors: "ts.deployment"
/// @throws DoesNotFit; Error{invalid_argument} where options contradict each other, and as
/// place, kv_capacity and make_step_cost
AssembledDeployment assemble(const DeploymentOptions& options, const DataFolders& folders,
                             const std::string& path = "deployment");

/// What runs, as a plan: the one given, or deployment_plan's. Absent without a model or with
/// several pools. @throws as deployment_plan
std::optional<Plan> plan_of(const AssembledDeployment& deployment, const DataFolders& folders);

/// What a summary needs to know of a deployment and its traffic.
serving::SummaryOptions summary_options(const AssembledDeployment& deployment,
                                        const serving::Traffic& traffic);

}  // namespace tessera::solver

namespace tessera {

template <>
struct Fields<solver::PoolOptions> {
  using P = solver::PoolOptions;
  static constexpr auto host = [](std::string_view name, std::string_view doc) -> FieldSpec {
    return {
        .name = name, .doc = doc, .unit = "s", .min = 0, .max = 100, .in_file = InFile::when_set};
  };
  static constexpr auto amount = [](std::string_view name, std::string_view doc,
                                    std::string_view unit) -> FieldSpec {
    return {
        .name = name, .doc = doc, .unit = unit, .min = 0, .max = 1e9, .in_file = InFile::when_set};
  };
  static constexpr auto list = std::tuple{
      field<&P::role>({.name = "role",
                       .doc = "What they do",
                       .in_file = InFile::when_set,
                       .as_option = AsOption::required}),
      field<&P::plan, NotInFiles>(
          {.name = "plan",
           .doc = "A plan, each of its replicas an engine; instead of model and cluster",
           .option_type = "tessera.Plan"}),
      field<&P::model, NotInFiles>({.name = "model",
                                    .doc = "Model, or its name",
                                    .option_type = "tessera.Model|string|table"}),
      field<&P::cluster, NotInFiles>({.name = "cluster",
                                      .doc = "Cluster, or its name",
                                      .option_type = "tessera.Cluster|string|table"}),
      field<&P::tensor_parallel>({.name = "tensor_parallel",
                                  .doc = "Devices that share each layer",
                                  .min = 1,
                                  .max = 64,
                                  .in_file = InFile::when_set,
                                  .as_option = AsOption::defaulted}),
      field<&P::expert_parallel>({.name = "expert_parallel",
                                  .doc = "Of these, the devices that experts are spread over; 1: "
                                         "each expert is cut over all",
                                  .min = 1,
                                  .max = 64,
                                  .in_file = InFile::when_set,
                                  .as_option = AsOption::defaulted}),
      field<&P::attention_data_parallel>(
          {.name = "attention_data_parallel",
           .doc = "Parts of them that have requests and a KV cache of their own, and share the "
                  "experts alone; limits of the engine are those of all parts",
           .min = 1,
           .max = 64,
           .in_file = InFile::when_set,
           .as_option = AsOption::defaulted}),
      field<&P::pipeline_parallel>({.name = "pipeline_parallel",
                                    .doc = "Stages, layers spread over them as vLLM does",
                                    .min = 1,
                                    .max = 4096,
                                    .in_file = InFile::when_set,
                                    .as_option = AsOption::defaulted}),
      field<&P::stage_layers>({.name = "stage_layers",
                               .doc = "Layers of each stage; left out: spread as vLLM does",
                               .unit = "layers",
                               .min = 1,
                               .max = 1e6,
                               .in_file = InFile::when_set,
                               .as_option = AsOption::plain}),
      field<&P::replicas>({.name = "replicas",
                           .doc = "Engines; left out: as many as there are devices for, without a "
                                  "model 1",
                           .min = 1,
                           .max = 100000,
                           .in_file = InFile::when_set}),
      field<&P::bitwidths>({.name = "bitwidths",
                            .doc = "Of all layers, or one per layer",
                            .unit = "bits",
                            .min = 1,
                            .max = 16,
                            .in_file = InFile::when_set,
                            .as_option = AsOption::defaulted}),
      field<&P::kv_bitwidth>({.name = "kv_bitwidth",
                              .doc = "Of the KV cache",
                              .unit = "bits",
                              .min = 2,
                              .max = 16,
                              .in_file = InFile::when_set,
                              .as_option = AsOption::defaulted}),
      field<&P::kernel_set>({.name = "kernel_set",
                             .doc = "Kernels that run the layers",
                             .in_file = InFile::when_set,
                             .as_option = AsOption::defaulted}),
      field<&P::host_step_s>(
          host("host_step_s",
               "Time of the host per step, as measured on a machine; left out: the kernel set's")),
      field<&P::host_sequence_s>(
          host("host_sequence_s", "Time of the host per step and request in it, likewise")),
      field<&P::host_prompt_s>(
          host("host_prompt_s", "Time of the host on top of a step that reads prompts, likewise")),
      field<&P::tuned>({.name = "tuned",
                        .doc = "Whether experts run kernels that are tuned for them, as by vLLM's "
                               "benchmark_moe.py; left out: where the runtime ships one",
                        .in_file = InFile::when_set}),
      field<&P::engine>({.name = "engine",
                         .doc = "Engine, or a table of its options",
                         .in_file = InFile::when_set,
                         .option_type = "tessera.Engine|table"}),
      field<&P::step_cost, NotInFiles>(
          {.name = "step_cost",
           .doc = "Time of a step without a model: { base_s =, per_token_s =, per_sequence_s =, "
                  "per_context_token_s = }, or a function of a table of what the step computes",
           .option_type = "table|fun(step: table): number"}),
      field<&P::kv_blocks>({.name = "kv_blocks",
                            .doc = "Blocks of each engine's KV cache; left out: the engine's, what "
                                   "the memory holds, or without a model as many as the traffic "
                                   "can use",
                            .unit = "blocks",
                            .min = 1,
                            .max = 1e9,
                            .in_file = InFile::when_set}),
      field<&P::kv_bytes_per_token>({.name = "kv_bytes_per_token",
                                     .doc = "Without a model, for transfers and swapping",
                                     .unit = "bytes",
                                     .min = 0,
                                     .max = 1e12,
                                     .in_file = InFile::when_set}),
      field<&P::usd_per_h>(
          amount("usd_per_h", "Price of an engine; left out: its devices' list price", "USD/h")),
      field<&P::idle_w>(amount("idle_w", "Power of an engine that waits", "W")),
      field<&P::busy_w>(amount("busy_w", "Power of an engine that computes", "W")),
      field<&P::devices>({.name = "devices",
                          .doc = "Numbers of the devices of each engine, stage by stage: engines "
                                 "that name the same one take turns on it; left out: its own",
                          .min = 0,
                          .max = 1e6,
                          .in_file = InFile::when_set,
                          .as_option = AsOption::plain}),
      field<&P::share>({.name = "share",
                        .doc =
                            "What routers should give each of its engines of the requests "
                            "under way, against those of other pools; of those that arrive where "
                            "a router sends in turn or at random",
                        .min = 1e-6,
                        .max = 1e6,
                        .in_file = InFile::when_set,
                        .as_option = AsOption::defaulted}),
      field<&P::from_s>({.name = "from_s",
                         .doc = "When its engines come",
                         .unit = "s",
                         .min = 0,
                         .max = 1e9,
                         .in_file = InFile::when_set,
                         .as_option = AsOption::defaulted}),
      field<&P::until_s>({.name = "until_s",
                          .doc = "When they get no request any more; left out: they stay",
                          .unit = "s",
                          .min = 0,
                          .max = 1e9,
                          .in_file = InFile::when_set}),
      field<&P::drops>({.name = "drops",
                        .doc = "What they have then is computed again elsewhere; else they end it",
                        .in_file = InFile::when_set,
                        .as_option = AsOption::defaulted})};
};

template <>
struct Fields<solver::AssembledDeployment> {
  using D = solver::AssembledDeployment;
  static constexpr auto list = std::tuple{
      field<&D::replicas>({.name = "replicas",
                           .doc = "Engines: name, role, scheduler, async_scheduling, kv_blocks, "
                                  "kv_tokens, num_stages, usd_per_h, kv_bytes_per_token"}),
      field<&D::router>({.name = "router", .doc = "Rule that chooses an engine"}),
      field<&D::placement>({.name = "placement",
                            .doc = "Where its layers are, of a model on a cluster in one pool; "
                                   "a plan has its own"}),
      field<&D::source>({.name = "source", .doc = "Where the step times come from"}),
      field<&D::run_class>({.name = "run_class",
                            .doc = "What published runs are like it: kernel_set, runtime, "
                                   "measured_chip, bitwidth; nil with costs of a script"}),
      field<&D::intervals>({.name = "intervals",
                            .doc = "How far such runs were from what was predicted, by metric"}),
      field<&D::notes>({.name = "notes", .doc = "What else matters"})};
};

/// Beside those of its only pool, or of what its pools leave out.
template <>
struct Fields<solver::DeploymentOptions> {
  using D = solver::DeploymentOptions;
  static constexpr auto list = std::tuple{
      field<&D::draft, NotInFiles>(
          {.name = "draft",
           .doc = "Plan of the model that drafts, for speculative.method = \"draft_model\"",
           .option_type = "tessera.Plan"}),
      field<&D::router, NotInFiles>(
          {.name = "router",
           .doc = "Name of the rule that chooses an engine, or a table of its options",
           .option_type = "string|table",
           .default_text = "\"round_robin\""}),
      field<&D::pools>({.name = "pools",
                        .doc = "Pools of engines with a role each: { role = \"prefill\", ... }, "
                               "{ role = \"decode\", ... }",
                        .in_file = InFile::when_set,
                        .option_type = "table[]"}),
      field<&D::api_s>({.name = "api_s",
                        .doc = "Time of client and API server per request before an engine sees "
                               "it, in TTFT and E2E; left out: the kernel set's (0.0055 for "
                               "vllm), 0 with step_cost",
                        .unit = "s",
                        .min = 0,
                        .max = 1000,
                        .in_file = InFile::when_set}),
      field<&D::transfer>({.name = "transfer",
                           .doc = "How keys and values go from pool to pool",
                           .in_file = InFile::when_set,
                           .option_type = "table"})};
};

}  // namespace tessera
