#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "serving_driver.h"
#include "tessera/core/rng.h"

namespace tessera::serving::driven {

template <class Value>
Value one_of(Rng& rng, std::initializer_list<Value> values) {
  return values.begin()[rng.integer(0, std::ssize(values) - 1)];
}

struct RandomRun {
  EngineOptions options;
  BlockManager::Options kv;
  std::vector<DrivenRequest> requests;

  Driver driver() const { return Driver(make_scheduler(options, kv), requests); }
};

inline std::vector<DrivenRequest> random_requests(Rng& rng, bool with_prefixes) {
  std::vector<DrivenRequest> requests(static_cast<std::size_t>(rng.integer(1, 40)));
  Ticks time = 0;
  for (DrivenRequest& r : requests) {
    time += one_of<Ticks>(rng, {0, 0, 1, 2, 5, 30});
    r.arrival = time;
    r.prompt_tokens = one_of<std::int64_t>(rng, {1, 15, 16, 17, 48, 100, 300});
    r.output_tokens = one_of<std::int64_t>(rng, {1, 2, 16, 33, 120});
    r.max_tokens = r.output_tokens + one_of<std::int64_t>(rng, {0, 0, 10, 150});
    r.priority = static_cast<std::int32_t>(rng.integer(0, 2));
    if (!with_prefixes || rng.uniform() > 0.7) continue;
    r.prefix_group = rng.integer(0, 2);
    r.prefix_tokens = one_of<std::int64_t>(rng, {64, 200});
    r.prompt_tokens = r.prefix_tokens + one_of<std::int64_t>(rng, {0, 0, 1, 16, 40});
  }
  return requests;
}

inline RandomRun random_run(const std::string& scheduler, std::uint64_t seed) {
  Rng rng(seed);
  RandomRun run;
  EngineOptions& o = run.options;
  o.scheduler = scheduler;
  o.enable_prefix_caching = rng.uniform() < 0.5;
  run.requests = random_requests(rng, o.enable_prefix_caching);
  o.max_num_seqs = one_of<std::int64_t>(rng, {1, 3, 8, 64});
  o.max_num_batched_tokens = one_of<std::int64_t>(rng, {64, 700, 2048});
  o.block_size = one_of<std::int64_t>(rng, {1, 8, 16});
  o.max_model_len = one_of<std::int64_t>(rng, {0, 0, 600});
  o.long_prefill_token_threshold = one_of<std::int64_t>(rng, {0, 0, 50});
  o.policy = one_of(rng, {QueuePolicy::fcfs, QueuePolicy::priority});
  // Whole prompts are for budgets that hold every request.
  if (rng.uniform() < 0.6) o.enable_chunked_prefill = o.max_num_batched_tokens < 600;
  if (o.max_num_batched_tokens < 600) o.enable_chunked_prefill = true;
  o.watermark = one_of(rng, {0.0, 0.01, 0.1});
  o.delay_factor = one_of(rng, {0.0, 0.0, 3.0});
  o.preemption_mode = one_of(rng, {PreemptionMode::recompute, PreemptionMode::swap});
  o.static_slots = one_of(rng, {StaticSlots::idle, StaticSlots::shrink});
  o.chunk_size = one_of<std::int64_t>(rng, {4, 64, 512});
  o.schedule_policy = one_of(rng, {SglangOrder::lpm, SglangOrder::fcfs, SglangOrder::lof,
                                   SglangOrder::random, SglangOrder::shortest, SglangOrder::hrrn});
  o.schedule_conservativeness = one_of(rng, {0.1, 1.0});
  o.mixed_chunk = rng.uniform() < 0.5;
  o.kv_allocation = one_of(rng, {KvAllocation::paged, KvAllocation::paged, KvAllocation::paged,
                                 KvAllocation::contiguous, KvAllocation::maximum});
  std::int64_t longest = o.max_model_len;
  for (const DrivenRequest& r : run.requests) {
    longest = std::max(longest, r.prompt_tokens + r.max_tokens);
  }
  const std::int64_t need = (longest * 10 / 9) / o.block_size + 3;  // the watermark is at most 1/10
  BlockManager::Options& kv = run.kv;
  kv.block_size = o.block_size;
  kv.num_blocks = need + one_of<std::int64_t>(rng, {0, 0, 3, 20, 1000});
  kv.prefix_caching = o.enable_prefix_caching;
  kv.allocation = o.kv_allocation;
  kv.max_model_len = o.max_model_len;
  kv.host_blocks = one_of<std::int64_t>(rng, {0, 10, 1000});
  o.prefill_micro_batch_size = one_of<std::int64_t>(rng, {0, 0, 3});
  o.decode_micro_batch_size = one_of<std::int64_t>(rng, {0, 0, 5});
  o.chunk_tokens = one_of<std::int64_t>(rng, {0, 30});
  return run;
}

/// Little memory, and many requests with one prompt and hence one answer: blocks under one hash,
/// and requests that find what others generate.
inline RandomRun random_twins(const std::string& scheduler, std::uint64_t seed) {
  RandomRun run = random_run(scheduler, seed);
  Rng rng(seed);
  for (DrivenRequest& r : run.requests) {
    r.arrival = r.arrival / 4;
    r.prefix_group = rng.integer(0, 1);
    r.prompt_tokens = r.prefix_tokens = 40;
    r.output_tokens = rng.integer(20, 120);
    r.max_tokens = 120;
  }
  run.options.max_num_seqs = 64;
  run.options.block_size = run.kv.block_size = one_of<std::int64_t>(rng, {4, 8, 16});
  run.options.kv_allocation = run.kv.allocation = KvAllocation::paged;
  run.options.enable_prefix_caching = run.kv.prefix_caching = true;
  run.options.watermark = 0;
  run.options.max_model_len = run.kv.max_model_len = 0;
  run.kv.num_blocks = 160 / run.kv.block_size + rng.integer(1, 40);
  return run;
}

}  // namespace tessera::serving::driven
