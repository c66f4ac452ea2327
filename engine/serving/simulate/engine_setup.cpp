#include "tessera/serving/engine_setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"

namespace tessera::serving {

BlockManager::Options kv_options(const Replica& replica) {
  const EngineOptions& engine = replica.engine;
  BlockManager::Options kv;
  kv.num_blocks = replica.kv_blocks;
  kv.block_size = engine.block_size;
  kv.prefix_caching = engine.enable_prefix_caching;
  kv.allocation = engine.kv_allocation;
  kv.max_model_len = engine.max_model_len;
  // Where nobody knows what a token takes, host memory holds as much as the device.
  kv.host_blocks = replica.kv_blocks;
  if (replica.kv_bytes_per_token > 0) {
    kv.host_blocks = static_cast<std::int64_t>(
        engine.swap_space_gib * 1024 * 1024 * 1024 /
        (replica.kv_bytes_per_token * static_cast<double>(engine.block_size)));
  }
  return kv;
}

std::unique_ptr<Scheduler> scheduler_of(const Replica& replica, const BlockManager::Options& kv) {
  auto scheduler = replica.make_scheduler(replica.engine, kv);
  if (scheduler->decides_ahead()) {
    const std::string why_not = why_step_by_step(replica.engine, replica.cost->num_stages());
    if (!why_not.empty()) refuse("engine.async_scheduling", "{}", why_not);
  }
  return scheduler;
}

Ticks swap_per_block(const Replica& replica) {
  if (replica.engine.swap_bytes_per_s <= 0) return 0;
  return to_ticks(replica.kv_bytes_per_token * static_cast<double>(replica.engine.block_size) /
                      replica.engine.swap_bytes_per_s,
                  "swap_bytes_per_s");
}

Sequence sequence_of(const Traffic& traffic, const Request& r, Ticks arrival) {
  Sequence s;
  s.arrival = arrival;
  s.priority = r.priority;
  s.slo_class = r.slo_class;
  s.prompt_tokens = r.prompt_tokens;
  s.known = r.prompt_tokens;
  s.max_tokens = r.max_tokens > 0 ? r.max_tokens : r.output_tokens;
  s.content.prompt_tokens = r.prompt_tokens;
  s.content.prefix_group = r.prefix_group;
  s.content.prefix_tokens = r.prefix_group >= 0 ? r.prefix_tokens : 0;
  s.content.stream = r.stream;
  s.content.block_ids = traffic.block_ids.data() + r.first_block_id;
  s.content.num_block_ids = r.num_block_ids;
  s.content.block_id_tokens = traffic.block_id_tokens;
  return s;
}

std::int64_t output_of(const Request& r, const EngineOptions& engine) {
  std::int64_t most = r.output_tokens;
  if (r.max_tokens > 0) most = std::min(most, r.max_tokens);
  const std::int64_t len = engine.max_model_len;
  return len > 0 ? std::min(most, std::max<std::int64_t>(1, len - r.prompt_tokens)) : most;
}

std::string why_stalled(const EngineCore& core, const Replica& replica) {
  if (!core.is_stalled()) return {};
  return fmt::format(
      "scheduler '{}' of {} schedules nothing, with {} requests waiting and {} running, and "
      "nothing else will happen",
      replica.engine.scheduler, replica.name, core.scheduler().num_waiting(),
      core.scheduler().num_running());
}

std::string why_circling(const EngineCore& core, const Replica& replica) {
  if (!core.is_circling()) return {};
  return fmt::format(
      "scheduler '{}' of {} computes and drops the same tokens again and again and generates none, "
      "with {} requests waiting and {} running",
      replica.engine.scheduler, replica.name, core.scheduler().num_waiting(),
      core.scheduler().num_running());
}

}  // namespace tessera::serving
