#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/cost/prediction_interval.h"
#include "tessera/serving/distribution.h"
#include "tessera/serving/log.h"
#include "tessera/serving/log_names.h"
#include "tessera/serving/slo.h"
#include "tessera/serving/stability.h"

namespace tessera::serving {

/// What to look at.
struct SummaryOptions {
  std::vector<Slo> slos;  ///< by slo_class; empty: no SLO, or one for all
  /// [requests]; empty: all are of class 0.
  std::vector<std::int32_t> slo_classes;
  /// Requests that are sent when others end: their run cannot be unstable.
  bool closed_loop = false;
  /// Left out of all figures of requests, by order of arrival; both ends by time or by count. By
  /// default nothing, as in vLLM's benchmark.
  double warm_up_s = 0, cool_down_s = 0;
  std::int64_t warm_up_requests = 0, cool_down_requests = 0;
  std::int64_t block_size = 16;             ///< token slots of a KV block
  std::vector<std::int64_t> prompt_tokens;  ///< [requests], for total_tok_s; empty: absent
  /// Whether itl_s is wanted where no SLO limits it: most of the work on a long run.
  bool ranks_gaps = true;
  std::string source;  ///< what the times are: "step times modelled (roofline of llama-3.1-8b)"
  std::vector<cost::PredictionInterval> intervals;  ///< of its class; empty: nothing is predicted

  /// @throws Error{out_of_range, invalid_argument} naming `path`
  void check(const std::string& path, std::size_t num_requests) const;
};

struct ReplicaSummary {
  std::string name;
  std::int64_t num_steps = 0, num_requests = 0, num_preemptions = 0;
  std::optional<std::int64_t> kv_blocks;
  double utilisation_ratio = 0;
  std::vector<double> stage_utilisation_ratios;
  std::optional<double> kv_usage_ratio, kv_peak_usage_ratio, prefix_hit_ratio;
};

/// Time before the first step, by what stopped the queue.
struct Waiting {
  double step = 0, seats = 0, tokens = 0, blocks = 0, policy = 0;
};

/// A run in figures. Definitions are those of vLLM's benchmark (vllm/benchmarks/serve.py): TTFT
/// and E2E count from when a request is sent; TPOT = (E2E - TTFT) / (output tokens - 1), of
/// requests with more than one; ITL pools the gaps between all tokens; the duration goes from the
/// first request sent to the last answer, so both ends count. What nobody can say is absent.
struct Summary {
  Distribution ttft_s, tpot_s, itl_s, e2e_s;
  Distribution queue_s;  ///< from being sent to the first step

  std::int64_t num_requests = 0;  ///< looked at: those below, less what warm-up and cool-down cut
  std::int64_t num_finished = 0, num_rejected = 0, num_unfinished = 0, num_cancelled = 0;
  std::int64_t num_unplaced = 0;  ///< of the rejected: their model was not there
  std::int64_t num_left_out = 0, num_unsent = 0;
  double duration_s = 0;
  std::int64_t output_tokens = 0;  ///< of finished requests
  double throughput_tok_s = 0;     ///< output tokens of finished requests
  std::optional<double> total_tok_s;
  double request_per_s = 0;
  double peak_tok_s =
      0;  ///< fullest second; tokens spread evenly between a request's first and last
  std::int64_t peak_concurrency = 0;

  std::optional<double> goodput_request_per_s, attainment_ratio, attainment_low, attainment_high;
  std::vector<TargetVerdict> targets;
  std::optional<bool> attains_slo;  ///< all of `targets` hold and the run is stable

  std::int64_t preemptions = 0, swaps = 0, recomputed_tokens = 0, cached_tokens = 0;
  std::optional<double> prefix_hit_ratio;
  std::optional<double> kv_usage_ratio, kv_peak_usage_ratio;
  std::optional<double> internal_fragmentation_ratio, external_fragmentation_ratio;
  double utilisation_ratio = 0;
  std::optional<double> acceptance_ratio, accepted_length;
  std::vector<ReplicaSummary> replicas;
  Waiting waited_s, waited_ratio;
  double transfer_s = 0;  ///< mean over finished requests

  std::optional<double> usd_per_h, usd_per_million_tokens, usd_per_million_total_tokens;
  std::optional<double> mean_power_w, kwh_per_million_tokens, joule_per_token;

  bool stable = true;
  std::string stability;  ///< the reason, one line
  std::optional<double> offered_request_per_s, sustainable_request_per_s;
  std::string cut_off;  ///< why the run stopped early
  std::string source;   ///< as the options say
  std::vector<cost::PredictionInterval> intervals;
  std::string verdict;  ///< "stable", or "unstable above 3.2 req/s: ..."
};

/// @throws Error of SummaryOptions::check
Summary summarise(const Log& log, const SummaryOptions& options);

/// What a person wants to see, at most 100 columns: the verdict first where the run is unstable,
/// and then no latencies.
std::string describe(const Summary& summary);

}  // namespace tessera::serving

/// The options that are plain values; `slo` is read by hand.
template <>
struct tessera::Fields<tessera::serving::SummaryOptions> {
  using S = tessera::serving::SummaryOptions;
  static constexpr auto list = std::tuple{
      OptionOnly{{.name = "slo",
                  .doc = "Latency limits { ttft_s, tpot_s, e2e_s, itl_s }: seconds for every "
                         "request, or { p99 = seconds }; or a list of such tables by slo_class",
                  .option_type = "table",
                  .as_flag = false},
                 OptionType::table},
      field<&S::warm_up_s>({.name = "warm_up_s",
                            .doc = "Requests of the first seconds are left out",
                            .unit = "s",
                            .min = 0,
                            .max = 9e6,
                            .as_option = AsOption::defaulted}),
      field<&S::cool_down_s>({.name = "cool_down_s",
                              .doc = "Requests of the last seconds of arrivals are left out",
                              .unit = "s",
                              .min = 0,
                              .max = 9e6,
                              .as_option = AsOption::defaulted}),
      field<&S::warm_up_requests>({.name = "warm_up_requests",
                                   .doc = "So many first requests are left out",
                                   .min = 0,
                                   .max = 1e12,
                                   .as_option = AsOption::defaulted}),
      field<&S::cool_down_requests>({.name = "cool_down_requests",
                                     .doc = "So many last requests are left out",
                                     .min = 0,
                                     .max = 1e12,
                                     .as_option = AsOption::defaulted})};
};

template <>
struct tessera::Fields<tessera::serving::ReplicaSummary> {
  using R = tessera::serving::ReplicaSummary;
  static constexpr auto list = std::tuple{
      field<&R::name>({.name = "name", .doc = "As the deployment calls it"}),
      field<&R::num_steps>({.name = "num_steps", .doc = "Steps taken"}),
      field<&R::num_requests>({.name = "num_requests", .doc = "Requests routed to it"}),
      field<&R::num_preemptions>({.name = "preemptions", .doc = "Requests that lost their blocks"}),
      field<&R::utilisation_ratio>({.name = "utilisation_ratio", .doc = "Busy share of the run"}),
      field<&R::stage_utilisation_ratios>(
          {.name = "stage_utilisation_ratios", .doc = "The same for each pipeline stage"}),
      field<&R::kv_blocks>({.name = "kv_blocks", .doc = "Of its KV cache"}),
      field<&R::kv_usage_ratio>(
          {.name = "kv_usage_ratio", .doc = "Used share of the KV blocks, mean over the run"}),
      field<&R::kv_peak_usage_ratio>({.name = "kv_peak_usage_ratio", .doc = "The largest"}),
      field<&R::prefix_hit_ratio>(
          {.name = "prefix_hit_ratio", .doc = "Prompt tokens found in the prefix cache"})};
};

template <>
struct tessera::Fields<tessera::serving::Waiting> {
  using W = tessera::serving::Waiting;
  static constexpr auto list =
      std::tuple{field<&W::step>({.name = "step", .doc = "For the step under way"}),
                 field<&W::seats>({.name = "seats", .doc = "For max_num_seqs"}),
                 field<&W::tokens>({.name = "tokens", .doc = "For max_num_batched_tokens"}),
                 field<&W::blocks>({.name = "blocks", .doc = "For KV blocks"}),
                 field<&W::policy>({.name = "policy", .doc = "By the scheduler's own rule"})};
};

template <>
struct tessera::Fields<tessera::serving::Summary> {
  using S = tessera::serving::Summary;
  static constexpr auto list = std::tuple{
      field<&S::verdict>({.name = "verdict",
                          .doc =
                              "stable, or unstable and above which rate; latencies of an unstable "
                              "run measure its length"}),
      field<&S::stable>({.name = "stable", .doc = "Whether the queue does not grow beyond chance"}),
      field<&S::stability>({.name = "stability", .doc = "Why, in one line"}),
      field<&S::ttft_s>({.name = "ttft_s",
                         .doc = "Time to first token, from sending: mean, p50, p90, p95, p99, n, "
                                "their intervals mean_low, mean_high, ...",
                         .unit = "s"}),
      field<&S::tpot_s>({.name = "tpot_s",
                         .doc = "Time per output token after the first, of requests with several",
                         .unit = "s"}),
      field<&S::itl_s>(
          {.name = "itl_s", .doc = "Gaps between tokens, of all requests", .unit = "s"}),
      field<&S::e2e_s>({.name = "e2e_s", .doc = "From sending to the last token", .unit = "s"}),
      field<&S::queue_s>({.name = "queue_s", .doc = "From sending to the first step", .unit = "s"}),
      field<&S::throughput_tok_s>(
          {.name = "throughput_tok_s", .doc = "Output tokens per second", .unit = "tok/s"}),
      field<&S::total_tok_s>(
          {.name = "total_tok_s", .doc = "Prompt and output tokens per second", .unit = "tok/s"}),
      field<&S::request_per_s>(
          {.name = "request_per_s", .doc = "Requests answered per second", .unit = "1/s"}),
      field<&S::offered_request_per_s>(
          {.name = "offered_request_per_s",
           .doc = "Requests sent per second; nil in closed loops and for all at once",
           .unit = "1/s"}),
      field<&S::sustainable_request_per_s>(
          {.name = "sustainable_request_per_s",
           .doc = "Estimate of what an unstable run would sustain; nil of a stable one",
           .unit = "1/s"}),
      field<&S::goodput_request_per_s>(
          {.name = "goodput_request_per_s",
           .doc = "Requests within the SLO per second; nil without one",
           .unit = "1/s"}),
      field<&S::attainment_ratio>(
          {.name = "attainment_ratio",
           .doc = "Requests within the SLO among all, rejected and unfinished ones too; without "
                  "those whose model was not there"}),
      field<&S::attainment_low>({.name = "attainment_low", .doc = "Wilson's 95 % interval of it"}),
      field<&S::attainment_high>({.name = "attainment_high", .doc = "Its upper end"}),
      field<&S::targets>({.name = "targets", .doc = "Whether each percentile of the SLO holds"}),
      field<&S::attains_slo>(
          {.name = "attains_slo", .doc = "Whether all targets hold and the run is stable"}),
      field<&S::num_requests>({.name = "num_requests", .doc = "Requests looked at"}),
      field<&S::num_finished>({.name = "num_finished", .doc = "Answered in full"}),
      field<&S::num_rejected>(
          {.name = "num_rejected", .doc = "That can never fit, or whose model was not there"}),
      field<&S::num_unplaced>(
          {.name = "num_unplaced",
           .doc = "Of them, for a model of several that had no place, or that had not come or had "
                  "left"}),
      field<&S::num_cancelled>(
          {.name = "num_cancelled", .doc = "Whose clients left before they were answered"}),
      field<&S::num_unfinished>(
          {.name = "num_unfinished", .doc = "Under way or waiting when the run was cut off"}),
      field<&S::num_left_out>({.name = "num_left_out", .doc = "Left out as warm-up or cool-down"}),
      field<&S::duration_s>({.name = "duration_s",
                             .doc = "From the first request sent to the last answer",
                             .unit = "s"}),
      field<&S::output_tokens>(
          {.name = "output_tokens", .doc = "Of finished requests", .unit = "tokens"}),
      field<&S::peak_tok_s>({.name = "peak_tok_s",
                             .doc =
                                 "Output tokens of the fullest second, a request's spread evenly "
                                 "between its first and last",
                             .unit = "tok/s"}),
      field<&S::peak_concurrency>(
          {.name = "peak_concurrency", .doc = "Most requests between sending and last token"}),
      field<&S::preemptions>(
          {.name = "preemptions", .doc = "Times that a request lost its blocks"}),
      field<&S::swaps>({.name = "swaps", .doc = "Of them, by moving blocks to the host"}),
      field<&S::recomputed_tokens>(
          {.name = "recomputed_tokens", .doc = "Computed once more", .unit = "tokens"}),
      field<&S::cached_tokens>({.name = "cached_tokens",
                                .doc = "Of prompts, found in the prefix cache",
                                .unit = "tokens"}),
      field<&S::prefix_hit_ratio>(
          {.name = "prefix_hit_ratio",
           .doc = "Tokens found among tokens looked up; nil without lookups"}),
      field<&S::kv_usage_ratio>(
          {.name = "kv_usage_ratio",
           .doc = "Used share of the KV blocks, mean over the run; nil without a limit"}),
      field<&S::kv_peak_usage_ratio>(
          {.name = "kv_peak_usage_ratio", .doc = "The largest, of any replica"}),
      field<&S::internal_fragmentation_ratio>(
          {.name = "internal_fragmentation_ratio",
           .doc = "Token slots handed out that hold no token, mean over time"}),
      field<&S::external_fragmentation_ratio>(
          {.name = "external_fragmentation_ratio",
           .doc = "Token slots free while a request was refused for memory, of all; nil if none "
                  "was"}),
      field<&S::utilisation_ratio>(
          {.name = "utilisation_ratio", .doc = "Busy share of the replicas' time"}),
      field<&S::replicas>({.name = "replicas", .doc = "The same for each replica"}),
      field<&S::acceptance_ratio>(
          {.name = "acceptance_ratio", .doc = "Drafted tokens that were accepted"}),
      field<&S::accepted_length>({.name = "accepted_length",
                                  .doc = "Tokens per verification, the target's own included",
                                  .unit = "tokens"}),
      field<&S::waited_s>({.name = "waited_s",
                           .doc =
                               "Mean time before the first step by what stopped the queue: step, "
                               "seats, tokens, blocks, policy",
                           .unit = "s"}),
      field<&S::waited_ratio>({.name = "waited_ratio", .doc = "The same as shares"}),
      field<&S::transfer_s>({.name = "transfer_s",
                             .doc = "Keys and values under way between pools, mean",
                             .unit = "s"}),
      field<&S::usd_per_h>({.name = "usd_per_h", .doc = "All replicas", .unit = "USD/h"}),
      field<&S::usd_per_million_tokens>({.name = "usd_per_million_tokens",
                                         .doc = "Output tokens, idle time paid too",
                                         .unit = "USD"}),
      field<&S::usd_per_million_total_tokens>({.name = "usd_per_million_total_tokens",
                                               .doc = "Prompt (cached ones too) and output tokens",
                                               .unit = "USD"}),
      field<&S::mean_power_w>({.name = "mean_power_w", .doc = "All replicas", .unit = "W"}),
      field<&S::kwh_per_million_tokens>(
          {.name = "kwh_per_million_tokens", .doc = "Output tokens", .unit = "kWh"}),
      field<&S::joule_per_token>({.name = "joule_per_token", .doc = "Output tokens", .unit = "J"}),
      field<&S::num_unsent>({.name = "num_unsent", .doc = "Not sent yet when the run was cut off"}),
      field<&S::source>({.name = "source", .doc = "What the times are: modelled or measured"}),
      field<&S::intervals>({.name = "intervals",
                            .doc = "How far published runs of this class were from what was "
                                   "predicted, by metric (tessera man serving)"}),
      field<&S::cut_off>(
          {.name = "cut_off", .doc = "Why the run stopped early; empty: it did not"})};
};
