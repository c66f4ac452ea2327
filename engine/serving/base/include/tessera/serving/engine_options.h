#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/record.h"
#include "tessera/core/runtime_version.h"

namespace tessera::serving {

enum class QueuePolicy { fcfs, priority };
/// How memory for keys and values is handed out.
enum class KvAllocation {
  paged,       ///< blocks as they are needed
  contiguous,  ///< one region for prompt and max_tokens, first fit
  maximum,     ///< max_model_len for every request
};
enum class PreemptionMode { recompute, swap };
/// What a finished slot of a static batch does.
enum class StaticSlots { idle, shrink };
/// Which waiting prompt SGLang takes next.
enum class SglangOrder { lpm, fcfs, lof, random, shortest, hrrn };
enum class DraftMethod { ngram, draft_model, mtp, eagle };
/// Host and device: one after the other, or the host prepares a step while the device runs one.
enum class HostMode { serial, overlapped };

/// Guessing tokens and verifying them in one step.
struct Speculation {
  DraftMethod method = DraftMethod::ngram;
  std::int64_t num_tokens = 4;  ///< drafted per step (g)
  /// [num_tokens]: share of drafts that are accepted up to and including this position, so the mean
  /// tokens per step are 1 + their sum; one number: of each token by itself, a a^2 a^3 ...
  std::vector<double> acceptance = {0.7, 0.5, 0.4, 0.3};
  /// Share of steps after which there are drafts, of which acceptance then is: a look-up in the
  /// text often finds none, and the next step verifies nothing.
  double found = 1;
  double draft_base_s = 0;          ///< of drafting one token for a batch
  double draft_per_sequence_s = 0;  ///< of drafting one token, per request

  friend bool operator==(const Speculation&, const Speculation&) = default;
};

/// A serving engine, with the knobs under vLLM's names.
struct EngineOptions {
  std::string scheduler = "vllm_v1";
  std::int64_t max_num_seqs = 256;
  std::int64_t max_num_batched_tokens = 8192;
  std::int64_t max_model_len = 0;  ///< 0: the model's context; without a model no limit
  std::int64_t block_size = 16;
  std::optional<std::int64_t> kv_blocks;         ///< absent: what the memory holds
  std::string runtime_version = kVllmVersion;    ///< whose memory it has
  std::optional<double> gpu_memory_utilization;  ///< absent: as the version has it
  bool enable_prefix_caching = true;
  /// Whether a prompt may be computed in pieces; absent: as each scheduler has it, on but in
  /// vllm_v0, where it was off. static, orca and sarathi do not ask.
  std::optional<bool> enable_chunked_prefill;
  std::int64_t long_prefill_token_threshold =
      0;  ///< most prompt tokens of a request per step; 0: off
  QueuePolicy policy = QueuePolicy::fcfs;
  double watermark = 0.01;  ///< vllm_v0, sarathi: share of blocks kept free at admission
  double delay_factor = 0;  ///< vllm_v0: of the last prompt's time, waited before a prefill
  /// vllm_v1, as TensorRT-LLM's executor has them (batch_wait_*, attention_dp_config): steps that
  /// prompts wait while others decode, at most, until a step with them has so many tokens, or each
  /// of so many parts of the attention has one; absent: nobody waits.
  std::optional<std::int64_t> prefill_wait_steps, prefill_wait_tokens, prefill_wait_parts;
  PreemptionMode preemption_mode = PreemptionMode::recompute;
  double swap_space_gib = 4;  ///< vllm_v0, with preemption_mode = swap
  double swap_bytes_per_s = 25e9;
  KvAllocation kv_allocation = KvAllocation::paged;
  StaticSlots static_slots = StaticSlots::idle;
  std::int64_t chunk_size = 512;  ///< sarathi
  /// micro_batches: requests of each for prompts and for tokens at most, 0: all of the batch; and
  /// tokens of a prompt in a step, 0: all.
  std::int64_t prefill_micro_batch_size = 0, decode_micro_batch_size = 0, chunk_tokens = 0;
  SglangOrder schedule_policy = SglangOrder::lpm;
  double schedule_conservativeness = 1;  ///< sglang
  bool mixed_chunk = false;              ///< sglang
  std::optional<Speculation> speculative;
  HostMode host = HostMode::serial;
  /// Whether a step is decided when the one before it starts, so that a request that comes is in
  /// the second step after; absent: as whoever builds the engine knows (off where nobody does).
  std::optional<bool> async_scheduling;
  std::string kv_cache_dtype = "auto";

  friend bool operator==(const EngineOptions&, const EngineOptions&) = default;
};

/// Why an engine of so many stages decides step by step, whatever is asked for; empty where it can
/// decide ahead (async_scheduling).
std::string why_step_by_step(const EngineOptions& engine, std::size_t num_stages = 1);

}  // namespace tessera::serving

namespace tessera {

template <>
inline constexpr auto kEnumNames<serving::QueuePolicy> = enum_names<serving::QueuePolicy>(
    {{serving::QueuePolicy::fcfs, "fcfs"}, {serving::QueuePolicy::priority, "priority"}});
template <>
inline constexpr auto kEnumNames<serving::KvAllocation> =
    enum_names<serving::KvAllocation>({{serving::KvAllocation::paged, "paged"},
                                       {serving::KvAllocation::contiguous, "contiguous"},
                                       {serving::KvAllocation::maximum, "maximum"}});
template <>
inline constexpr auto kEnumNames<serving::PreemptionMode> = enum_names<serving::PreemptionMode>(
    {{serving::PreemptionMode::recompute, "recompute"}, {serving::PreemptionMode::swap, "swap"}});
template <>
inline constexpr auto kEnumNames<serving::StaticSlots> = enum_names<serving::StaticSlots>(
    {{serving::StaticSlots::idle, "idle"}, {serving::StaticSlots::shrink, "shrink"}});
template <>
inline constexpr auto kEnumNames<serving::SglangOrder> =
    enum_names<serving::SglangOrder>({{serving::SglangOrder::lpm, "lpm"},
                                      {serving::SglangOrder::fcfs, "fcfs"},
                                      {serving::SglangOrder::lof, "lof"},
                                      {serving::SglangOrder::random, "random"},
                                      {serving::SglangOrder::shortest, "shortest"},
                                      {serving::SglangOrder::hrrn, "hrrn"}});
template <>
inline constexpr auto kEnumNames<serving::DraftMethod> =
    enum_names<serving::DraftMethod>({{serving::DraftMethod::ngram, "ngram"},
                                      {serving::DraftMethod::draft_model, "draft_model"},
                                      {serving::DraftMethod::mtp, "mtp"},
                                      {serving::DraftMethod::eagle, "eagle"}});
template <>
inline constexpr auto kEnumNames<serving::HostMode> = enum_names<serving::HostMode>(
    {{serving::HostMode::serial, "serial"}, {serving::HostMode::overlapped, "overlapped"}});

template <>
struct Fields<serving::Speculation> {
  using S = serving::Speculation;
  static constexpr auto list = std::tuple{
      field<&S::method>(
          {.name = "method",
           .doc = "Who drafts: the text itself, a small model, or a head of the model",
           .as_option = AsOption::defaulted}),
      field<&S::num_tokens>({.name = "num_tokens",
                             .doc = "Drafted per step and request",
                             .unit = "tokens",
                             .min = 0,
                             .max = 64,
                             .as_option = AsOption::defaulted}),
      field<&S::acceptance, NotInFiles>(
          {.name = "acceptance",
           .doc = "Share of drafts accepted up to and including each position; one number: of each "
                  "draft whose predecessors passed",
           .min = 0,
           .max = 1,
           .option_type = "number|number[]",
           .default_text = "{0.7, 0.5, 0.4, 0.3}"}),
      field<&S::found, NotInFiles>(
          {.name = "found",
           .doc =
               "Share of a request's steps after which there are drafts: a look-up may find none",
           .min = 0,
           .max = 1,
           .as_option = AsOption::defaulted}),
      field<&S::draft_base_s>({.name = "draft_base_s",
                               .doc = "Time of drafting one token for a batch; left out with a "
                                      "plan: derived from the model",
                               .unit = "s",
                               .min = 0,
                               .max = 1e6}),
      field<&S::draft_per_sequence_s>({.name = "draft_per_sequence_s",
                                       .doc = "Time of drafting one token, per request",
                                       .unit = "s",
                                       .min = 0,
                                       .max = 1e6})};
};

template <>
struct Fields<serving::EngineOptions> {
  using E = serving::EngineOptions;
  static constexpr double kMost = 1e9;
  static constexpr auto list = std::tuple{
      field<&E::scheduler>(
          {.name = "scheduler",
           .doc = "static, orca, vllm_v0, vllm_v1, sarathi, sglang, micro_batches, or one that a "
                  "script registered; see tessera help schedulers",
           .as_option = AsOption::defaulted}),
      field<&E::max_num_seqs>({.name = "max_num_seqs",
                               .doc = "Requests that run at the same time",
                               .unit = "requests",
                               .min = 1,
                               .max = 1 << 20,
                               .as_option = AsOption::defaulted}),
      field<&E::max_num_batched_tokens>({.name = "max_num_batched_tokens",
                                         .doc = "Tokens computed in a step at most",
                                         .unit = "tokens",
                                         .min = 1,
                                         .max = kMost,
                                         .as_option = AsOption::defaulted}),
      field<&E::max_model_len>({.name = "max_model_len",
                                .doc = "Prompt and output of a request at most; 0: the model's "
                                       "context, without a model no limit",
                                .unit = "tokens",
                                .min = 0,
                                .max = kMost,
                                .as_option = AsOption::defaulted}),
      field<&E::block_size>({.name = "block_size",
                             .doc = "Tokens in a block of the KV cache",
                             .unit = "tokens",
                             .min = 1,
                             .max = 65536,
                             .as_option = AsOption::defaulted}),
      field<&E::kv_blocks>({.name = "kv_blocks",
                            .doc = "Blocks of the KV cache; left out: what the memory holds",
                            .unit = "blocks",
                            .min = 1,
                            .max = kMost,
                            .in_file = InFile::when_set}),
      field<&E::gpu_memory_utilization>({.name = "gpu_memory_utilization",
                                         .doc = "Share of a device's memory that the engine takes; "
                                                "left out: as its version does, 0.9 or from vLLM "
                                                "0.22 on 0.92",
                                         .min = 0.01,
                                         .max = 1,
                                         .in_file = InFile::when_set}),
      field<&E::runtime_version>({.name = "runtime_version",
                                  .doc = "Of vLLM: what it takes of the memory besides the model",
                                  .as_option = AsOption::defaulted,
                                  .as_flag = false}),  // launches have the flag
      field<&E::enable_prefix_caching>({.name = "enable_prefix_caching",
                                        .doc = "Find blocks of earlier requests again",
                                        .as_option = AsOption::defaulted}),
      field<&E::enable_chunked_prefill>({.name = "enable_chunked_prefill",
                                         .doc = "Compute prompts in pieces; left out: on, but off "
                                                "in vllm_v0; static, orca and sarathi do not ask",
                                         .in_file = InFile::when_set}),
      field<&E::long_prefill_token_threshold>(
          {.name = "long_prefill_token_threshold",
           .doc = "Prompt tokens of one request per step at most; 0: no such limit",
           .unit = "tokens",
           .min = 0,
           .max = kMost,
           .as_option = AsOption::defaulted}),
      field<&E::policy>({.name = "policy",
                         .doc = "Order of the queue; priority: lower numbers first, and others are "
                                "preempted for them",
                         .as_option = AsOption::defaulted}),
      field<&E::watermark>({.name = "watermark",
                            .doc = "vllm_v0, sarathi: share of blocks kept free at admission",
                            .min = 0,
                            .max = 1,
                            .as_option = AsOption::defaulted}),
      field<&E::delay_factor>(
          {.name = "delay_factor",
           .doc = "vllm_v0: a prompt waits for so many times the last one's time",
           .min = 0,
           .max = 1e6,
           .as_option = AsOption::defaulted}),
      field<&E::prefill_wait_steps>(
          {.name = "prefill_wait_steps",
           .doc = "vllm_v1: steps that prompts wait at most while others decode, for "
                  "prefill_wait_tokens or prefill_wait_parts, as TensorRT-LLM's "
                  "batch_wait_timeout_iters and attention_dp_config.timeout_iters; left out: none",
           .unit = "steps",
           .min = 1,
           .max = kMost,
           .in_file = InFile::when_set}),
      field<&E::prefill_wait_tokens>(
          {.name = "prefill_wait_tokens",
           .doc = "of a step with the prompts that wait, from which on they are read "
                  "(batch_wait_max_tokens_ratio of max_num_batched_tokens)",
           .unit = "tokens",
           .min = 1,
           .max = kMost,
           .in_file = InFile::when_set}),
      field<&E::prefill_wait_parts>(
          {.name = "prefill_wait_parts",
           .doc = "parts of the attention (attention_data_parallel), from which on prompts are "
                  "read: once each has one (attention_dp_config.enable_balance)",
           .unit = "parts",
           .min = 2,
           .max = 1024,
           .in_file = InFile::when_set}),
      field<&E::preemption_mode>({.name = "preemption_mode",
                                  .doc = "vllm_v0: what becomes of a preempted request's KV cache",
                                  .as_option = AsOption::defaulted}),
      field<&E::swap_space_gib>({.name = "swap_space_gib",
                                 .doc = "vllm_v0: host memory for it",
                                 .unit = "GiB",
                                 .min = 0,
                                 .max = 1e6,
                                 .as_option = AsOption::defaulted}),
      field<&E::swap_bytes_per_s>({.name = "swap_bytes_per_s",
                                   .doc = "vllm_v0: rate between device and host",
                                   .unit = "bytes/s",
                                   .min = 1,
                                   .max = 1e15,
                                   .as_option = AsOption::defaulted}),
      field<&E::kv_allocation>({.name = "kv_allocation",
                                .doc = "How the KV cache is handed out: blocks as they are needed, "
                                       "one region per request, or max_model_len for each",
                                .as_option = AsOption::defaulted}),
      field<&E::static_slots>({.name = "static_slots",
                               .doc = "static: a slot whose request has ended goes on being "
                                      "computed, or is left out",
                               .as_option = AsOption::defaulted}),
      field<&E::chunk_size>({.name = "chunk_size",
                             .doc = "sarathi: tokens of a step",
                             .unit = "tokens",
                             .min = 1,
                             .max = kMost,
                             .as_option = AsOption::defaulted}),
      field<&E::prefill_micro_batch_size>(
          {.name = "prefill_micro_batch_size",
           .doc =
               "micro_batches: requests whose prompts are computed together at most; 0: the whole "
               "batch",
           .unit = "requests",
           .min = 0,
           .max = kMost,
           .as_option = AsOption::defaulted}),
      field<&E::decode_micro_batch_size>(
          {.name = "decode_micro_batch_size",
           .doc =
               "micro_batches: requests whose tokens are computed together at most; 0: the whole "
               "batch",
           .unit = "requests",
           .min = 0,
           .max = kMost,
           .as_option = AsOption::defaulted}),
      field<&E::chunk_tokens>({.name = "chunk_tokens",
                               .doc = "micro_batches: tokens of a prompt in a step at most; 0: all",
                               .unit = "tokens",
                               .min = 0,
                               .max = kMost,
                               .as_option = AsOption::defaulted}),
      field<&E::schedule_policy>({.name = "schedule_policy",
                                  .doc = "sglang: order of waiting prompts",
                                  .as_option = AsOption::defaulted}),
      field<&E::schedule_conservativeness>(
          {.name = "schedule_conservativeness",
           .doc = "sglang: factor on the share of future outputs that memory is kept for",
           .min = 0,
           .max = 100,
           .as_option = AsOption::defaulted}),
      field<&E::mixed_chunk>({.name = "mixed_chunk",
                              .doc = "sglang: prompts and decodes in one step",
                              .as_option = AsOption::defaulted}),
      field<&E::speculative>({.name = "speculative",
                              .doc = "Drafts: { method, num_tokens, acceptance, ... }, see tessera "
                                     "help ts.engine.speculative",
                              .in_file = InFile::when_set,
                              .option_type = "table",
                              .as_flag = false}),
      field<&E::host>({.name = "host",
                       .doc = "serial: the host prepares a step when the last one is done; "
                              "overlapped: while it runs",
                       .as_option = AsOption::defaulted}),
      field<&E::async_scheduling>(
          {.name = "async_scheduling",
           .doc = "vllm_v1: decide a step while the one before it runs, as vLLM does from 0.14 on; "
                  "left out: off, unless ts.deployment knows better",
           .in_file = InFile::when_set}),
      field<&E::kv_cache_dtype>({.name = "kv_cache_dtype",
                                 .doc = "auto (as the plan says), fp8 or bfloat16",
                                 .as_option = AsOption::defaulted})};

  /// What limits belong to another scheduler is no error; prompts must fit a step somehow, and
  /// async_scheduling is asked for only where it is known.
  static void check(const E& engine, const FieldPath& path);
};

}  // namespace tessera
