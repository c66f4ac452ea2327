#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/files.h"
#include "tessera/core/quality.h"
#include "tessera/core/record.h"
#include "tessera/solver/deploy/objective.h"
#include "tessera/solver/deploy/serving_request.h"
#include "tessera/solver/deploy/serving_search.h"

namespace tessera::solver {

/// Equal engines of a row.
struct ServingPart {
  serving::Role role = serving::Role::mixed;
  std::string device;
  std::int64_t engines = 1, tensor_parallel = 1, pipeline_parallel = 1;
  std::int64_t expert_parallel = 1, attention_data_parallel = 1;
  std::vector<std::int64_t> stage_layers;  ///< empty: as vLLM spreads them
  std::int32_t bitwidth = 16, kv_bitwidth = 16;
  std::int64_t max_num_seqs = 0, max_num_batched_tokens = 0;
  bool enable_prefix_caching = false;
  double share = 1;  ///< of requests, for each of its engines; 100 for those that take the most
  std::vector<std::int64_t> devices;  ///< into the cluster's
};

/// What a row says of a part, but for its devices and its prefix cache.
ServingPart serving_part(const DeploymentPart& of);

/// A deployment that serves the traffic within the SLO.
struct ServingRow {
  std::int64_t rank = 0;
  double rate_per_s = 0;             ///< the largest that held
  std::optional<double> high_per_s;  ///< that did not
  Scope scope = Scope::whole;
  std::string limited_by, note, layout, source;
  std::string tokens_note;  ///< why a step has fewer tokens than is usual; empty: it has them
  bool disaggregated = false;
  std::int64_t gpus = 0, engines = 0;
  std::int64_t tensor_parallel = 1, pipeline_parallel = 1;  ///< of the first part
  std::int32_t bitwidth = 16, kv_bitwidth = 16;             ///< the least of the parts
  double tok_s_per_gpu = 0;
  double tok_s_per_user = 0;  ///< of answers of one token, which have no TPOT, whole answers
  double running = 0;         ///< requests that are decoded at a time, by Little's law
  std::optional<double> ttft_p99_s, tpot_p99_s, attainment_ratio;
  std::optional<double> usd_per_h, usd_per_million_tokens;
  std::optional<double> perplexity_increase;
  std::vector<ServingPart> parts;

  std::optional<Quality> quality;  ///< of the worst part: a request gets any of them
  std::vector<cost::PredictionInterval> intervals;  ///< of published runs like it, by metric
  std::shared_ptr<const serving::MaxRate> found;    ///< with the run at the rate that held
  std::shared_ptr<const AssembledDeployment> deployment;
};

/// Deployments, the best first, or why there is none.
struct ServingPlans {
  std::vector<ServingRow> rows;
  std::string why_none;  ///< empty where there are rows
  ServingGoal objective = ServingGoal::rate;
  std::string preference;    ///< why the first is not the one with the largest rate; empty: it is
  std::string quality_note;  ///< why the default bound on quality is not kept; empty: it is
  /// On a cluster of several types of devices: the best on one of them, and what the first row
  /// serves over it, or costs less (ratio).
  std::string best_homogeneous;
  std::optional<double> gain_of_mixing;
  /// Rate per device of the first with prefill and decode in one engine over that of the first
  /// pools.
  std::optional<double> aggregated_over_disaggregated;
  std::vector<Refusal> refusals;
  std::int64_t simulated = 0;  ///< engines and deployments, each at several rates
  std::int64_t bounded = 0;    ///< ruled out by their bounds
  std::shared_ptr<SearchTraffic> traffic;
};

/// What may be lost where nothing is said of quality.
inline constexpr QualityBound kDefaultQuality{0.01, {}, BoundAt::mid};

/// Which deployments serve a stream of requests within an SLO best: engines of each type of device
/// that the runtime can run are bounded by the prices of their steps; those that could still be
/// among the best are simulated alone, one rate after another on the same requests; what fills the
/// cluster, or is enough for the rate, is put together from the best, with pools of prefill and
/// decode engines beside it; the winners' limits on tokens are tried; and what is first was
/// simulated whole.
/// Without a bound on quality and without bitwidths the predicted perplexity may rise
/// by that of kDefaultQuality; where no deployment keeps to it, or the best that does has less than
/// a request at a time and fewer bits serve three times as many, by any amount.
/// @param path names the request in errors
/// @throws Error{invalid_argument} for a request that contradicts itself, and what the request's
/// `poll` throws
ServingPlans plan_serving(const ServingRequest& request, const DataFolders& folders,
                          const std::string& path = "request");

/// A row at a load.
struct FrontierRow {
  std::int64_t rank = 0;  ///< of the row
  std::string layout;
  double rate_per_s = 0, tok_s_per_user = 0, tok_s_per_gpu = 0;
  bool chosen = false;     ///< the first row at all of its rate
  bool efficient = false;  ///< nothing listed beats it in both
};

/// A rate beside another, by their ratio: "12 % more", "as many"; "252 times as many" from 3 on,
/// which a percentage hides.
std::string gain_words(double ratio);

/// Tokens per second and user against tokens per second and device, at loads from a tenth of each
/// row's rate to all of it; the fastest for users first. @param poll as of the request
std::vector<FrontierRow> frontier_of(const ServingPlans& plans,
                                     std::function<void(std::int64_t)> poll = nullptr);

}  // namespace tessera::solver

namespace tessera {

template <>
struct Fields<solver::ServingPart> {
  using P = solver::ServingPart;
  static constexpr auto list = std::tuple{
      field<&P::role>({.name = "role", .doc = "mixed, prefill or decode"}),
      field<&P::device>({.name = "device", .doc = "Type, or several joined by +"}),
      field<&P::engines>({.name = "engines", .doc = "How many"}),
      field<&P::tensor_parallel>({.name = "tensor_parallel", .doc = "Devices of a stage"}),
      field<&P::expert_parallel>(
          {.name = "expert_parallel", .doc = "Devices of a stage that experts are spread over"}),
      field<&P::attention_data_parallel>(
          {.name = "attention_data_parallel",
           .doc = "Parts of a stage with requests of their own, which share the experts alone"}),
      field<&P::pipeline_parallel>({.name = "pipeline_parallel", .doc = "Stages"}),
      field<&P::stage_layers>(
          {.name = "stage_layers", .doc = "Layers of each stage; empty: spread as vLLM does"}),
      field<&P::bitwidth>({.name = "bitwidth", .doc = "Of the weights", .unit = "bits"}),
      field<&P::kv_bitwidth>({.name = "kv_bitwidth", .doc = "Of the KV cache", .unit = "bits"}),
      field<&P::share>({.name = "share",
                        .doc = "Of the requests under way, for each of its engines; of unlike "
                               "engines 100 for those that take the most, which the router has to "
                               "know"})};
};

template <>
struct Fields<solver::ServingRow> {
  using R = solver::ServingRow;
  static constexpr auto list = std::tuple{
      field<&R::rank>({.name = "rank", .doc = "From 1"}),
      field<&R::rate_per_s>(
          {.name = "rate_per_s", .doc = "The largest rate that held", .unit = "1/s"}),
      field<&R::high_per_s>({.name = "high_per_s", .doc = "One that did not", .unit = "1/s"}),
      field<&R::scope>({.name = "scope", .doc = "What was simulated"}),
      field<&R::limited_by>({.name = "limited_by", .doc = "What breaks above"}),
      field<&R::note>({.name = "note", .doc = "Where the run is short for its rate"}),
      field<&R::tokens_note>(
          {.name = "tokens_note", .doc = "Why steps have fewer tokens than vLLM gives them"}),
      field<&R::layout>({.name = "layout", .doc = "Its engines in one line"}),
      field<&R::source>({.name = "source", .doc = "Where its step times come from"}),
      field<&R::intervals>({.name = "intervals",
                            .doc = "How far published runs of this class were from what was "
                                   "predicted, by metric"}),
      field<&R::disaggregated>({.name = "disaggregated", .doc = "Prefill and decode in pools"}),
      field<&R::gpus>({.name = "gpus", .doc = "Devices"}),
      field<&R::engines>({.name = "engines", .doc = "Engines"}),
      field<&R::tensor_parallel>({.name = "tensor_parallel", .doc = "Of the first part"}),
      field<&R::pipeline_parallel>({.name = "pipeline_parallel", .doc = "Of the first part"}),
      field<&R::bitwidth>({.name = "bitwidth", .doc = "The least of the parts", .unit = "bits"}),
      field<&R::kv_bitwidth>(
          {.name = "kv_bitwidth", .doc = "The least of the parts", .unit = "bits"}),
      field<&R::tok_s_per_gpu>({.name = "tok_s_per_gpu", .doc = "Output tokens", .unit = "tok/s"}),
      field<&R::tok_s_per_user>(
          {.name = "tok_s_per_user", .doc = "Output tokens of a request", .unit = "tok/s"}),
      field<&R::running>(
          {.name = "running", .doc = "Requests that are decoded at a time, the mean"}),
      field<&R::ttft_p99_s>({.name = "ttft_p99_s", .doc = "At the rate", .unit = "s"}),
      field<&R::tpot_p99_s>({.name = "tpot_p99_s", .doc = "At the rate", .unit = "s"}),
      field<&R::attainment_ratio>({.name = "attainment_ratio", .doc = "Requests within the SLO"}),
      field<&R::usd_per_h>({.name = "usd_per_h", .doc = "Of its devices", .unit = "USD/h"}),
      field<&R::usd_per_million_tokens>(
          {.name = "usd_per_million_tokens", .doc = "Output tokens", .unit = "USD"}),
      field<&R::perplexity_increase>(
          {.name = "perplexity_increase", .doc = "Of the worst part (ratio)"})};
};

template <>
struct Fields<solver::FrontierRow> {
  using R = solver::FrontierRow;
  static constexpr auto list = std::tuple{
      field<&R::rank>({.name = "rank", .doc = "In the list"}),
      field<&R::layout>({.name = "layout", .doc = "Its engines in one line"}),
      field<&R::rate_per_s>({.name = "rate_per_s", .doc = "Of requests", .unit = "1/s"}),
      field<&R::tok_s_per_user>(
          {.name = "tok_s_per_user", .doc = "Output tokens of a request", .unit = "tok/s"}),
      field<&R::tok_s_per_gpu>({.name = "tok_s_per_gpu", .doc = "Output tokens", .unit = "tok/s"}),
      field<&R::chosen>({.name = "chosen", .doc = "The first at all of its rate"}),
      field<&R::efficient>({.name = "efficient", .doc = "Nothing listed beats it in both"})};
};

}  // namespace tessera
