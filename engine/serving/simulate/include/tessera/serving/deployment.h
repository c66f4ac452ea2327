#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/core/placement.h"
#include "tessera/serving/engine_options.h"
#include "tessera/serving/router.h"
#include "tessera/serving/scheduler.h"
#include "tessera/serving/step_cost.h"

namespace tessera::serving {

using Role = EngineRole;

/// Makes a scheduler; those of scripts come so.
using MakeScheduler =
    std::function<std::unique_ptr<Scheduler>(const EngineOptions&, const BlockManager::Options&)>;

/// One engine with its own queue and KV cache.
struct Replica {
  std::string name;
  EngineOptions engine;
  std::shared_ptr<const StepCost> cost;
  std::int64_t kv_blocks = 0;
  Role role = Role::mixed;
  double kv_bytes_per_token = 0;  ///< over all its devices; 0: transfers and swaps take no time
  double usd_per_h = 0;
  double idle_w = 0, busy_w = 0;
  MakeScheduler make_scheduler = make_scheduler_of_engine;

  static std::unique_ptr<Scheduler> make_scheduler_of_engine(const EngineOptions& options,
                                                             const BlockManager::Options& kv) {
    return serving::make_scheduler(options, kv);
  }
};

/// How keys and values go from a prefill replica to a decode replica. A replica sends one request
/// at a time.
struct KvTransfer {
  double bytes_per_s = 0;  ///< 0: no time
  double latency_s = 0;
  bool per_layer = false;  ///< each layer as soon as it is computed: only the last one's tail shows
  std::int64_t num_layers = 1;
};

struct Deployment {
  std::vector<Replica> replicas;
  RouterOptions router;
  /// Makes the router of a run; those of scripts come so.
  std::function<std::unique_ptr<Router>(const RouterOptions&)> make_router = serving::make_router;
  KvTransfer transfer;
  /// What a client and its API server take of each request before a replica sees it: HTTP,
  /// templates, tokenizer. All requests pass at once, so it delays and never queues.
  double api_s = 0;
};

/// @throws Error{invalid_argument} where nobody takes prompts, or those that are read are decoded
/// nowhere
void check_roles(const Deployment& deployment, const std::string& path);

}  // namespace tessera::serving
