#pragma once

#include <deque>
#include <memory>
#include <queue>
#include <vector>

#include "device_memory.h"
#include "engine_run.h"
#include "tessera/serving/arrivals.h"
#include "tessera/serving/handovers.h"
#include "tessera/serving/models.h"
#include "tessera/serving/simulate.h"
#include "tessera/serving/state_samples.h"

namespace tessera::serving {

/// The event loop.
class Simulation final : private Pools {
 public:
  Simulation(const Deployment& deployment, const Traffic& traffic, SimulationOptions options);
  Log run();

 private:
  // At equal ticks in this order, as an engine by itself takes them (see EngineCore).
  enum class Kind : std::int32_t {
    step_end,
    transfer_end,
    cancel,
    go,
    leave,
    come,
    place,
    arrival,
    start
  };
  struct Event {
    Ticks time = 0;
    Kind kind = Kind::start;
    std::int64_t id = 0;       ///< key of a replica, model, or request
    std::int64_t version = 0;  ///< of step ends
    auto operator<=>(const Event&) const = default;
  };
  /// What stands in front of engines that do the same: a router, and requests that wait for one.
  struct Front {
    std::unique_ptr<Router> router = nullptr;
    std::vector<std::size_t> engines = {};  ///< that are there now
    std::deque<std::int64_t> queue = {};    ///< also while no engine is there
    std::vector<ReplicaLoad> loads = {};    ///< as they were read
    Ticks read_at = -1;
    bool is_open = true;  ///< false: its model is not there, and nobody waits for it
  };

  void make_fronts();
  void add_engines();
  std::size_t add_engine(const Replica& replica);
  void plan_models();
  void place(std::size_t model, Ticks now);
  void leave(std::size_t model, Ticks now);
  void add_placed(std::size_t model, const ModelPlacement& placement, Ticks now);
  void free_memory(std::size_t replica, Ticks now);
  std::vector<DeviceView> device_views(Ticks now);
  void turn_away(std::int64_t request, Ticks now, bool is_unplaced);
  RoutedRequest routed_request(std::int64_t request) const;
  void route_by_placer(Front& front, std::int64_t request, Ticks now);
  void close_models();
  void come(std::size_t replica, Ticks now);
  void go(std::size_t replica, Ticks now);
  void send_first();
  bool is_replayed() const { return options_.recorded && options_.recorded->with_times; }
  void arrive(std::int64_t request, Ticks now);
  void route(std::int64_t request, Ticks now);
  void submit(std::int64_t request, std::size_t replica, Ticks now);
  void came(std::size_t replica, Ticks now) override;
  void ask_start(std::size_t replica, Ticks time);
  void start(std::size_t replica, Ticks now);
  void push_ends(std::size_t replica);
  bool interrupt_peers(std::size_t replica, Ticks now);
  bool is_alone(std::size_t replica) const;
  bool is_over(std::size_t replica) const;
  bool settle(std::size_t replica, Ticks now) override;
  std::int64_t cached_tokens(std::size_t replica, std::int64_t request, Ticks now);
  void end_step(std::size_t replica, Ticks now);
  void has_ended(const Ended& ended, std::size_t replica, Ticks now);
  void cancel(std::int64_t request, Ticks now);
  void request_over(std::int64_t request, Ticks now);
  void drain(Front& front, Ticks now);
  std::size_t decoder_of(std::int64_t request, Ticks now) override;
  EngineCore& core_of(std::size_t engine) override;
  Sequence loading_sequence(const Handover& handover) override;
  Ticks send(const Handover& handover, Ticks now) override;
  void reject(std::int64_t request, Ticks now) override;
  void has_released(std::size_t engine, Ticks now) override;
  void end_transfer(std::int64_t request, Ticks now);
  Ticks transfer_end(const Handover& handover, Ticks now) const;
  Ticks recorded_end(const Handover& handover) const;
  std::size_t choose(Front& front, std::int64_t request, Ticks now);
  const std::vector<ReplicaLoad>& loads(Front& front, Ticks now);
  const Replica& replica(std::size_t i) const { return engines_[i]->replica(); }
  Front& front_of(std::int64_t request);
  Front& front_of_engine(std::size_t i);
  /// Of engines whose events fall on the same tick the first model's come first.
  std::int64_t key_of(std::size_t i) const {
    return (std::int64_t{replica(i).model} << kModelShift) + static_cast<std::int64_t>(i);
  }
  static std::size_t engine_of(std::int64_t key) {
    return static_cast<std::size_t>(key & ((std::int64_t{1} << kModelShift) - 1));
  }
  static constexpr int kModelShift = 32;
  void push(const Event& event) { events_.push(event); }
  StateSample state(Ticks now) const;
  void explain_stall();
  void give_up(const EngineRun& engine);

  const Deployment& deployment_;
  const Traffic& traffic_;
  SimulationOptions options_;
  Log log_;
  DeviceClocks clocks_;
  std::vector<std::unique_ptr<EngineRun>> engines_;
  std::vector<std::vector<std::size_t>> peers_;  ///< [replica] others that share a device with it
  std::vector<Front> fronts_;                    ///< [model], or one of all that take prompts
  Front decode_;                ///< without a router: nobody takes what was read elsewhere
  std::deque<Replica> placed_;  ///< that came with models
  std::unique_ptr<Placer> placer_;
  std::optional<DeviceMemory> memory_;
  std::vector<std::size_t> unplaced_;  ///< models that came, found no room and have not left
  double memory_bytes_ = 0;            ///< of the models that are there, as their costs count
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Event current_;
  std::vector<Ticks> start_at_;           ///< of the next start that is to come; kNever: none
  std::vector<std::int32_t> replica_of_;  ///< [request] that has it; -1: none yet
  std::vector<Ticks> ready_at_;           ///< when an engine is loaded
  Handovers handovers_{*this};
  std::vector<Ticks> sender_free_;
  Ticks api_ = 0;  ///< from sending a request to its arrival at the router
  Arrivals arrivals_;
  Ticks horizon_ = 0;
  std::int64_t num_ended_ = 0, num_events_ = 0, num_starts_ = 0;
  bool stopped_ = false;

  StateSamples samples_;
};

}  // namespace tessera::serving
