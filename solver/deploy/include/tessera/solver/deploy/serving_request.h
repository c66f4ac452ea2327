#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/cluster.h"
#include "tessera/core/enum_names.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/quality.h"
#include "tessera/core/record.h"
#include "tessera/serving/deployment.h"
#include "tessera/serving/slo.h"
#include "tessera/solver/deploy/search_traffic.h"
#include "tessera/solver/problem/problem.h"

namespace tessera::solver {

/// What a deployment is to be best at.
enum class ServingGoal {
  rate,  ///< the largest
  cost,  ///< the least money for the traffic's own rate
  gpus   ///< the fewest devices for it
};

/// Limits on latencies as flags say them, one statistic of all requests each (s).
struct LatencyLimits {
  std::optional<double> ttft_p99, tpot_p99, e2e_p99, ttft_mean, tpot_mean, e2e_mean;
};

/// Options of every engine of a search, and which of its limits are settled by them.
struct SettledEngine {
  serving::EngineOptions engine;
  bool max_num_seqs = false, max_num_batched_tokens = false, enable_prefix_caching = false;
};

/// Which engines, on which devices, serve a stream of requests within an SLO best?
struct ServingRequest {
  std::shared_ptr<const ModelShape> model;
  std::shared_ptr<const Cluster> cluster;
  TrafficSource traffic;
  std::vector<serving::Slo> slos;  ///< one, or one for each class of requests
  ServingGoal objective = ServingGoal::rate;
  QualityBound quality;
  Runtime runtime = Runtime::vllm;
  SettledEngine engine;
  std::optional<std::vector<std::int32_t>> bitwidths;
  std::optional<std::vector<std::int32_t>> kv_bitwidths;
  std::optional<std::vector<std::int64_t>> tensor_parallel;
  /// Of models with experts.
  std::optional<std::vector<std::int64_t>> expert_parallel, attention_data_parallel;
  std::optional<std::vector<std::int64_t>> pipeline_parallel;
  bool unlike_engines = false;
  bool disaggregated = true;
  bool unlike_devices = true;
  serving::RouterOptions router{.name = "least_requests"};
  serving::MakeRouter make_router = serving::make_router;
  serving::MakeScheduler make_scheduler = serving::Replica::make_scheduler_of_engine;
  std::string kernel_set = "auto";
  std::int64_t limit = 8;
  std::int64_t num_requests = 2000;
  std::function<void(std::int64_t)> poll = nullptr;  ///< during simulations; may throw

  /// The strictest limit that the SLO of any class has on a metric, of each request or of a
  /// statistic; infinity: none.
  double strictest_s(serving::Metric metric) const;
  /// As given; else all that the runtime may have kernels for.
  std::vector<std::int32_t> candidate_bitwidths() const;
  std::vector<std::int32_t> candidate_kv_bitwidths() const;
};

}  // namespace tessera::solver

namespace tessera {

template <>
inline constexpr auto kEnumNames<solver::ServingGoal> =
    enum_names<solver::ServingGoal>({{solver::ServingGoal::rate, "rate"},
                                     {solver::ServingGoal::cost, "cost"},
                                     {solver::ServingGoal::gpus, "gpus"}});

template <>
struct Fields<solver::LatencyLimits> {
  using L = solver::LatencyLimits;
  static constexpr auto limit = [](std::string_view name, std::string_view doc) -> FieldSpec {
    return {.name = name, .doc = doc, .unit = "s", .min = 0, .max = 1e9};
  };
  static constexpr auto list = std::tuple{
      field<&L::ttft_p99>(limit(
          "ttft_p99", "Time to first token that 99 % of requests keep to; without limits: 2")),
      field<&L::tpot_p99>(limit(
          "tpot_p99", "Time per output token after the first, likewise; without limits: 0.1")),
      field<&L::e2e_p99>(limit("e2e_p99", "Time to the last token, likewise")),
      field<&L::ttft_mean>(limit("ttft_mean", "Mean time to first token")),
      field<&L::tpot_mean>(limit("tpot_mean", "Mean time per output token")),
      field<&L::e2e_mean>(limit("e2e_mean", "Mean time to the last token"))};
};

/// The options of ts.plan_serving and, but for those that are objects, of `tessera capacity`.
template <>
struct Fields<solver::ServingRequest> {
  using R = solver::ServingRequest;
  static constexpr auto object = [](std::string_view name, std::string_view doc,
                                    std::string_view type, bool required) -> FieldSpec {
    return {.name = name,
            .doc = doc,
            .as_option = required ? AsOption::required : AsOption::plain,
            .option_type = type,
            .as_flag = false};
  };
  static constexpr auto list = std::tuple{
      field<&R::model, NotInFiles>(
          object("model", "Model, or its name", "tessera.Model|string|table", true)),
      field<&R::cluster, NotInFiles>(object("cluster",
                                            "Cluster, or its name; devices may be left out",
                                            "tessera.Cluster|string|table", true)),
      field<&R::traffic, NotInFiles>(
          object("traffic",
                 "Traffic, or a table of the options of ts.traffic; for objectives cost and gpus "
                 "with its rate",
                 "tessera.Traffic|table", true)),
      field<&R::slos, NotInFiles>(object("slo", "As for ts.max_rate", "table", true)),
      field<&R::objective, NotInFiles>(
          {.name = "objective",
           .doc = "The largest rate, or the traffic's own rate with the least money or the fewest "
                  "devices",
           .as_option = AsOption::defaulted,
           .as_flag = false}),
      field<&R::quality, NotInFiles>(
          object("quality",
                 "{ max_perplexity_increase = } or { min_accuracy_recovery = }, as for "
                 "ts.problem; default: a predicted rise of perplexity by at most 1 %, or where "
                 "that fits nowhere, any; with bitwidths none",
                 "table", false)),
      field<&R::runtime, NotInFiles>(
          {.name = "runtime",
           .doc = "What is to run it. vllm: only engines that plan:export can launch, with "
                  "bitwidths and KV caches that vLLM has kernels for on their devices, and pools "
                  "that its NixlConnector joins; tessera: all that a kernel set has a price for; "
                  "llama.cpp's servers are not simulated. "
                  "Either way each engine has one bitwidth throughout",
           .as_option = AsOption::defaulted}),
      field<&R::engine, NotInFiles>(
          object("engine", "Options of ts.engine that are settled", "tessera.Engine|table", false)),
      field<&R::bitwidths, NotInFiles>(
          {.name = "bitwidths",
           .doc = "To choose from; default: 16, 8 and 4, for tessera 3 too",
           .unit = "bits",
           .min = 1,
           .max = 16}),
      field<&R::kv_bitwidths, NotInFiles>(
          {.name = "kv_bitwidths",
           .doc = "To choose from; default: 16, and 8 where the runtime's kernels read it",
           .unit = "bits",
           .min = 2,
           .max = 16}),
      field<&R::tensor_parallel, NotInFiles>(
          {.name = "tensor_parallel",
           .doc = "Degrees to choose from; default: powers of two",
           .min = 1,
           .max = 64}),
      field<&R::expert_parallel, NotInFiles>(
          {.name = "expert_parallel",
           .doc = "Devices of a group that experts are spread over, to choose from; default: 1 "
                  "(each is cut over the group) and the whole group",
           .min = 1,
           .max = 64}),
      field<&R::attention_data_parallel, NotInFiles>(
          {.name = "attention_data_parallel",
           .doc = "Parts of a group with requests of their own, to choose from; default: 1, and "
                  "with experts spread as many as devices where these would hold copies of one "
                  "cache",
           .min = 1,
           .max = 64}),
      field<&R::pipeline_parallel, NotInFiles>(
          {.name = "pipeline_parallel",
           .doc = "Stages to choose from; default: as few as hold the model",
           .min = 1,
           .max = 4096}),
      field<&R::unlike_engines, NotInFiles>(
          {.name = "unlike_engines",
           .doc = "Engines behind one address may have unlike bitwidths, so that which of them "
                  "answers decides what a request gets",
           .as_option = AsOption::defaulted}),
      field<&R::disaggregated, NotInFiles>(
          {.name = "disaggregated",
           .doc = "Look at pools of prefill and decode engines too",
           .as_option = AsOption::defaulted}),
      field<&R::unlike_devices, NotInFiles>(
          {.name = "unlike_devices",
           .doc = "Look at pipelines over devices of several types too, their layers split by what "
                  "the devices take",
           .as_option = AsOption::defaulted}),
      field<&R::router, NotInFiles>({.name = "router",
                                     .doc = "As for ts.deployment",
                                     .option_type = "string|table",
                                     .default_text = "\"least_requests\"",
                                     .as_flag = false}),
      field<&R::kernel_set, NotInFiles>({.name = "kernel_set",
                                         .doc = "Kernels that run the layers",
                                         .as_option = AsOption::defaulted}),
      field<&R::limit, NotInFiles>({.name = "limit",
                                    .doc = "Deployments listed",
                                    .min = 1,
                                    .max = 100,
                                    .as_option = AsOption::defaulted}),
      field<&R::num_requests, NotInFiles>(
          {.name = "num_requests",
           .doc = "Per engine and simulated rate, where traffic is a table without it",
           .unit = "requests",
           .min = 20,
           .max = 1e6,
           .as_option = AsOption::defaulted})};

  /// There is an SLO, and what it asks of quality are ratios.
  static void check(const R& request, const FieldPath& path);
};

}  // namespace tessera
