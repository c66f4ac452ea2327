#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tessera/serving/ticks.h"

namespace tessera::serving {

/// What stopped the first waiting request from being admitted.
enum class Limit : std::uint8_t {
  none,    ///< it waits for the step under way
  seats,   ///< max_num_seqs
  tokens,  ///< max_num_batched_tokens
  blocks,  ///< KV cache
  policy,  ///< the scheduler's own rule: a static batch under way, decodes first, a delay
};
inline constexpr std::size_t kNumLimits = 5;

enum class Outcome : std::uint8_t {
  unfinished,  ///< the run was cut off
  finished,
  rejected,   ///< can never fit: longer than the context or the KV cache
  cancelled,  ///< its client left before it was answered
};

/// What became of a request. Times in ticks from the start of the run; kNever: it did not happen.
struct RequestRecord {
  Ticks arrival = kNever;          ///< sent by its client
  Ticks taken = kNever;            ///< by the engine, or by the router in front of several
  Ticks first_scheduled = kNever;  ///< in a step for the first time
  Ticks first_token = kNever;
  Ticks last_token = kNever;
  Ticks cancelled = kNever;        ///< its client has left
  std::int64_t output_tokens = 0;  ///< generated
  std::int64_t cached_tokens = 0;  ///< of the prompt, found in the prefix cache at first admission
  std::int64_t recomputed_tokens = 0;  ///< computed once more after preemptions
  std::int32_t num_preemptions = 0;
  std::int32_t replica = -1;               ///< that finished it
  std::int32_t model = -1;                 ///< that it is for, where there are several
  std::array<Ticks, kNumLimits> waited{};  ///< before its first step, by what stopped the queue
  Ticks transferred = 0;     ///< its keys and values were under way, from pool to pool
  Ticks decode_started = 0;  ///< in a step of the engine it was handed over to; 0: it was not
  Outcome outcome = Outcome::unfinished;
  bool is_unplaced = false;  ///< rejected, as its model was not there
};

/// Gaps between tokens of `weight` requests at a time: ticks, ticks + slope, ... of `count` steps.
struct GapRun {
  Ticks ticks = 0, slope = 0;
  std::int64_t count = 1, weight = 1;
};

/// A request's part in a step.
struct ScheduledTokens {
  std::int64_t request = 0;  ///< 0-based, of the traffic
  std::int64_t tokens = 0;

  friend bool operator==(const ScheduledTokens&, const ScheduledTokens&) = default;
};

/// Guesses at the tokens of a request in a step.
struct DraftRecord {
  std::int64_t request = 0;
  std::int64_t drafts = 0, accepted = 0;  ///< verified in the step, and those that passed
  std::int64_t next_drafts = -1;          ///< as Generated has it

  friend bool operator==(const DraftRecord&, const DraftRecord&) = default;
};

/// One step of one replica, as both executors log it.
struct StepRecord {
  std::int64_t step = 0;  ///< 0-based, of its replica
  std::int32_t replica = 0;
  Ticks start = 0, duration = 0;
  std::vector<ScheduledTokens> scheduled;  ///< by request
  std::vector<DraftRecord> drafts;         ///< by request; of those with any
  std::vector<std::int64_t> preempted, finished;
  std::int64_t free_blocks = 0;                   ///< after the step
  std::int64_t num_waiting = 0, num_running = 0;  ///< after the step was decided
  Limit limit = Limit::none;                      ///< that stopped admission in it
};

/// Sums over a replica's run.
struct ReplicaRecord {
  std::string name;
  std::int64_t num_steps = 0, num_requests = 0, num_cancelled = 0;
  std::int64_t num_preemptions = 0, num_swaps = 0;
  std::int64_t scheduled_tokens = 0, prompt_tokens = 0, recomputed_tokens = 0;
  std::int64_t prefix_queries = 0, prefix_hits = 0;  ///< tokens, at first admissions
  std::int64_t drafted_tokens = 0, accepted_tokens = 0, num_drafts = 0;
  std::int64_t kv_blocks = 0, most_blocks_used = 0;
  Ticks busy = 0;
  double block_ticks = 0;          ///< integral of used blocks over time
  double slot_ticks = 0;           ///< integral of token slots that hold a token
  double reserved_slot_ticks = 0;  ///< integral of token slots handed out
  double unusable_slot_ticks =
      0;                     ///< integral of free slots while a request was refused for blocks
  double refused_ticks = 0;  ///< time during which a request was refused for blocks
  std::vector<Ticks> stage_busy;
  std::vector<Ticks> retries;  ///< when it decided as time had come to; where steps are recorded
  double usd_per_h = 0;
  double idle_w = 0, busy_w = 0;
};

/// What became of a model among several.
struct ModelRecord {
  std::string name;
  Ticks placed = kNever;                   ///< when it got its place
  std::vector<std::int32_t> engines = {};  ///< their numbers
  std::vector<std::int32_t> devices = {};  ///< of its engines, stage by stage
  std::int64_t num_devices = 0;            ///< of the engine of its first requests
  std::vector<std::int64_t> layers = {};   ///< of that engine's stages, where somebody said
  double memory_bytes = 0;
  std::string why = {};            ///< it got none
  std::string configuration = {};  ///< as its placement has it
};

/// A device that models share.
struct DeviceRecord {
  std::string name;
  Ticks busy = 0;
  double total_bytes = 0, peak_bytes = 0;
  bool was_used = false;  ///< a model lay on it
};

/// A sample of the state, for time series.
struct StateSample {
  Ticks time = 0;
  std::int64_t num_waiting = 0, num_running = 0, used_blocks = 0;
  std::int64_t output_tokens = 0;  ///< generated since the last sample
};

/// All that happened.
struct Log {
  std::vector<RequestRecord> requests;  ///< as the traffic numbers them
  std::vector<ReplicaRecord> replicas;
  std::vector<GapRun> gaps;
  std::vector<StepRecord> steps;  ///< in order of start; empty unless recorded
  std::vector<StateSample> samples;
  std::vector<ModelRecord> models;    ///< empty: the engines serve all requests
  std::vector<DeviceRecord> devices;  ///< that they share
  double peak_memory_bytes = 0;       ///< of all models that were there at once
  bool steps_recorded = false;
  Ticks end = 0;        ///< of the last step
  std::string cut_off;  ///< why the run stopped early; empty: it ended by itself
  bool stuck = false;   ///< the run would never have ended: cut_off says what does not come on
};

}  // namespace tessera::serving
