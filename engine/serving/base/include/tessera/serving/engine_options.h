#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/record.h"

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
  std::optional<std::int64_t> kv_blocks;  ///< absent: what the memory holds
  double gpu_memory_utilization = 0.9;
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;
  std::int64_t long_prefill_token_threshold =
      0;  ///< most prompt tokens of a request per step; 0: off
  QueuePolicy policy = QueuePolicy::fcfs;
  double watermark = 0.01;  ///< vllm_v0: share of blocks kept free at admission
  double delay_factor = 0;  ///< vllm_v0: of the last prompt's time, waited before a prefill
  PreemptionMode preemption_mode = PreemptionMode::recompute;
  double swap_space_gib = 4;  ///< vllm_v0, with preemption_mode = swap
  double swap_bytes_per_s = 25e9;
  KvAllocation kv_allocation = KvAllocation::paged;
  StaticSlots static_slots = StaticSlots::idle;
  std::int64_t chunk_size = 512;  ///< sarathi
  SglangOrder schedule_policy = SglangOrder::lpm;
  double schedule_conservativeness = 1;  ///< sglang
  bool mixed_chunk = false;              ///< sglang
  std::optional<Speculation> speculative;
  HostMode host = HostMode::serial;
  std::string kv_cache_dtype = "auto";

  friend bool operator==(const EngineOptions&, const EngineOptions&) = default;
};

}  // namespace tessera::serving
