#pragma once

#include <deque>
#include <memory>
#include <queue>
#include <unordered_map>
#include <vector>

#include "engine_run.h"
#include "tessera/serving/arrivals.h"
#include "tessera/serving/simulate.h"
#include "tessera/serving/state_samples.h"

namespace tessera::serving {

/// The event loop.
class Simulation {
 public:
  Simulation(const Deployment& deployment, const Traffic& traffic, SimulationOptions options);
  Log run();

 private:
  // At equal ticks in this order, as an engine by itself takes them (see EngineCore).
  enum class Kind : std::int32_t { step_end, transfer_end, cancel, go, come, arrival, start };
  struct Event {
    Ticks time = 0;
    Kind kind = Kind::start;
    std::int64_t id = 0;       ///< replica, or request
    std::int64_t version = 0;  ///< of step ends
    auto operator<=>(const Event&) const = default;
  };
  // A prompt that is read: its keys and values are to go to a decode replica.
  struct Handover {
    std::int64_t request = 0;
    std::size_t source = 0, target = 0;
    Ticks started = 0, ready = 0;  ///< when it began to be read, and was
    Ticks end = kNever;            ///< of the transfer, once it is on the way
    bool cancelled = false;        ///< on the way
  };

  void add_engines();
  void come(std::size_t replica, Ticks now);
  void go(std::size_t replica, Ticks now);
  void hand_over_elsewhere(std::size_t target, Ticks now);
  std::vector<std::int64_t> break_handovers(std::size_t replica, Ticks now);
  void send_first();
  bool is_replayed() const { return options_.recorded && options_.recorded->with_times; }
  void arrive(std::int64_t request, Ticks now);
  void route(std::int64_t request, Ticks now);
  void submit(std::int64_t request, std::size_t replica, Ticks now);
  void came(std::size_t replica, Ticks now);
  void ask_start(std::size_t replica, Ticks time);
  void start(std::size_t replica, Ticks now);
  void push_ends(std::size_t replica);
  bool interrupt_peers(std::size_t replica, Ticks now);
  bool is_alone(std::size_t replica) const;
  bool is_over(std::size_t replica) const;
  bool settle(std::size_t replica, Ticks now);
  std::int64_t cached_tokens(std::size_t replica, std::int64_t request, Ticks now);
  void end_step(std::size_t replica, Ticks now);
  void has_ended(const Ended& ended, std::size_t replica, Ticks now);
  void cancel(std::int64_t request, Ticks now);
  bool cancel_handover(std::int64_t request, Ticks now);
  void request_over(std::int64_t request, Ticks now);
  void drain_shared_queue(Ticks now);
  void hand_over(Handover handover, Ticks now);
  void try_handovers(std::size_t target, Ticks now);
  void release(const Handover& handover, Ticks now);
  void end_transfer(std::int64_t request, Ticks now);
  Ticks transfer_end(const Handover& handover, Ticks now) const;
  std::size_t choose(Router& router, const std::vector<std::size_t>& candidates,
                     std::int64_t request, Ticks now);
  const std::vector<ReplicaLoad>& loads(Router& router, const std::vector<std::size_t>& candidates,
                                        Ticks now);
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
  std::vector<std::size_t> entry_, decode_;  ///< replicas that take prompts now, and what follows
  std::unique_ptr<Router> router_, decode_router_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Event current_;
  std::vector<Ticks> start_at_;            ///< of the next start that is to come; kNever: none
  std::vector<std::int32_t> replica_of_;   ///< [request] that has it; -1: none yet
  std::deque<std::int64_t> shared_queue_;  ///< in front of all, also while no engine is there
  /// [target] that wait for blocks; beyond the last: for a decode replica to come.
  std::vector<std::deque<Handover>> handovers_;
  std::unordered_map<std::int64_t, Handover> under_way_;  ///< by request
  std::vector<Ticks> sender_free_;
  Ticks api_ = 0;  ///< from sending a request to its arrival at the router
  Arrivals arrivals_;
  Ticks horizon_ = 0;
  std::int64_t num_ended_ = 0, num_events_ = 0, num_starts_ = 0;
  bool stopped_ = false;

  struct Signals {
    std::vector<ReplicaLoad> loads;
    Ticks read_at = -1;
  };
  Signals entry_signals_, decode_signals_;

  StateSamples samples_;
};

}  // namespace tessera::serving
