#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/placement.h"
#include "tessera/core/record.h"
#include "tessera/serving/engine_options.h"
#include "tessera/serving/router.h"
#include "tessera/serving/scheduler.h"
#include "tessera/serving/step_cost.h"
#include "tessera/serving/traffic.h"

namespace tessera::serving {

using Role = EngineRole;

/// Makes a scheduler; those of scripts come so.
using MakeScheduler =
    std::function<std::unique_ptr<Scheduler>(const EngineOptions&, const BlockManager::Options&)>;

/// Makes the router of a run; those of scripts come so.
using MakeRouter = std::function<std::unique_ptr<Router>(const RouterOptions&)>;

struct ModelSet;

/// One engine with its own queue and KV cache.
struct Replica {
  std::string name;
  EngineOptions engine;
  std::shared_ptr<const StepCost> cost;
  std::int64_t kv_blocks = 0;
  Role role = Role::mixed;
  double kv_bytes_per_token = 0;  ///< over all its devices; 0: transfers and swaps take no time
  /// What it should have of the requests under way, against the others: of a plan its batch size.
  double share = 1;
  double usd_per_h = 0;
  double idle_w = 0, busy_w = 0;
  /// [stage] numbers of its devices, which compute one step at a time: engines that name the same
  /// one take turns, in the order in which steps are decided. Empty: they are its own.
  std::vector<std::vector<std::int32_t>> devices = {};
  std::vector<double> stage_bytes = {};  ///< [stage] of each of them; where models share devices
  std::int32_t model = 0;                ///< whose requests it takes, of ModelSet::models
  /// When it takes requests; then it ends those that it has, or where `drops`, gives them back to
  /// the router, to be computed again elsewhere: by prefill engines first where there are pools.
  double from_s = 0;
  std::optional<double> until_s = {};
  bool drops = false;
  MakeScheduler make_scheduler = make_scheduler_of_engine;

  static std::unique_ptr<Scheduler> make_scheduler_of_engine(const EngineOptions& options,
                                                             const BlockManager::Options& kv) {
    return serving::make_scheduler(options, kv);
  }

  // As scripts see it.
  std::int64_t kv_tokens() const { return kv_blocks * engine.block_size; }
  std::int64_t num_stages() const { return static_cast<std::int64_t>(cost->num_stages()); }
  const std::string& scheduler() const { return engine.scheduler; }
  bool async_scheduling() const { return engine.async_scheduling.value_or(false); }
  std::optional<double> gpu_memory_utilization() const { return engine.gpu_memory_utilization; }
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
  MakeRouter make_router = serving::make_router;
  KvTransfer transfer;
  /// What a client and its API server take of each request before a replica sees it: HTTP,
  /// templates, tokenizer. All requests pass at once, so it delays and never queues.
  double api_s = 0;
  /// Whose engines come with them, on devices that they share; null: the replicas serve all.
  std::shared_ptr<const ModelSet> models = nullptr;
};

/// @throws Error{invalid_argument} where nobody takes prompts, those that are read are decoded
/// nowhere, an engine goes before it comes, or devices are not those of its stages
void check_roles(const Deployment& deployment, const std::string& path);

/// Where nobody said how many blocks there are (0): as many as the traffic can use.
void fill_kv_blocks(Deployment& deployment, const Traffic& traffic);
/// Of a replica that takes the requests that `takes` says.
void fill_kv_blocks(Replica& replica, const Traffic& traffic,
                    const std::function<bool(std::size_t request)>& takes);

}  // namespace tessera::serving

namespace tessera {

template <>
struct Fields<serving::Replica> {
  using R = serving::Replica;
  static constexpr auto list = std::tuple{
      field<&R::name>({.name = "name", .doc = "Its devices"}),
      field<&R::role>({.name = "role", .doc = "What it does"}),
      field<&R::scheduler>({.name = "scheduler", .doc = "Who decides its steps"}),
      field<&R::async_scheduling>(
          {.name = "async_scheduling", .doc = "A step is decided while the one before it runs"}),
      field<&R::kv_blocks>(
          {.name = "kv_blocks", .doc = "Of its KV cache; 0: as many as it can use"}),
      field<&R::kv_tokens>({.name = "kv_tokens", .doc = "That they hold", .unit = "tokens"}),
      field<&R::gpu_memory_utilization>(
          {.name = "gpu_memory_utilization", .doc = "Share of its devices' memory that it takes"}),
      field<&R::num_stages>({.name = "num_stages", .doc = "Of its pipeline"}),
      field<&R::share>({.name = "share", .doc = "Of the requests under way, against the others"}),
      field<&R::usd_per_h>({.name = "usd_per_h", .doc = "What it costs", .unit = "USD/h"}),
      field<&R::kv_bytes_per_token>({.name = "kv_bytes_per_token",
                                     .doc = "Of keys and values, over all its devices",
                                     .unit = "bytes"})};
};

template <>
struct Fields<serving::KvTransfer> {
  using T = serving::KvTransfer;
  static constexpr auto list = std::tuple{
      field<&T::bytes_per_s>({.name = "bytes_per_s",
                              .doc = "Rate of each sender; 0: no time",
                              .unit = "bytes/s",
                              .min = 0,
                              .max = 1e15,
                              .in_file = InFile::when_set,
                              .as_option = AsOption::defaulted}),
      OptionOnly{
          {.name = "link_gbps", .doc = "The same in Gb/s", .unit = "Gb/s", .min = 1e-6, .max = 1e7},
          OptionType::number},
      field<&T::latency_s>({.name = "latency_s",
                            .doc = "Of a hand-over",
                            .unit = "s",
                            .min = 0,
                            .max = 1e4,
                            .in_file = InFile::when_set,
                            .as_option = AsOption::defaulted}),
      field<&T::per_layer>(
          {.name = "per_layer",
           .doc = "Each layer goes as soon as it is computed; only the last one's time shows",
           .in_file = InFile::when_set,
           .as_option = AsOption::defaulted})};
};

}  // namespace tessera
