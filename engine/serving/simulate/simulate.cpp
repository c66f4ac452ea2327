#include "tessera/serving/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "simulation.h"
#include "tessera/core/error.h"
#include "tessera/serving/engine_setup.h"

namespace tessera::serving {
namespace {

constexpr std::int64_t kPollEvery = 4096;

std::set<std::int32_t> devices_of(const Replica& replica) {
  std::set<std::int32_t> all;
  for (const auto& stage : replica.devices) all.insert(stage.begin(), stage.end());
  return all;
}

bool has_role(const Deployment& deployment, Role role) {
  return std::any_of(deployment.replicas.begin(), deployment.replicas.end(),
                     [&](const Replica& r) { return r.role == role; });
}

}  // namespace

void check_roles(const Deployment& deployment, const std::string& path) {
  const auto has = [&](Role role) { return has_role(deployment, role); };
  if (!has(Role::mixed) && !has(Role::prefill)) {
    refuse(path, "no engine takes prompts; give pools of roles prefill and decode, or mixed");
  }
  if (has(Role::prefill) != has(Role::decode)) {
    refuse(path, "there are engines of role {} and none of role {}; give both, or mixed ones",
           has(Role::prefill) ? "prefill" : "decode", has(Role::prefill) ? "decode" : "prefill");
  }
  for (const Replica& r : deployment.replicas) {
    if (r.until_s && *r.until_s <= r.from_s) {
      refuse(path, "{} goes at {} s, before it comes at {} s", r.name, *r.until_s, r.from_s);
    }
    if (!r.devices.empty() && r.devices.size() != r.cost->num_stages()) {
      refuse(path, "{} has {} stages, and devices of {}", r.name, r.cost->num_stages(),
             r.devices.size());
    }
  }
}

Simulation::Simulation(const Deployment& deployment, const Traffic& traffic,
                       SimulationOptions options)
    : deployment_(deployment),
      traffic_(traffic),
      options_(std::move(options)),
      api_(to_ticks(deployment.api_s, "api_s")),
      arrivals_(traffic, api_,
                [this](Ticks time, std::int64_t request) {
                  push({time, Kind::arrival, request, 0});
                }),
      samples_(traffic) {
  horizon_ = to_ticks(options_.horizon_s, "horizon_s");
  log_.requests.resize(traffic.requests.size());
  log_.steps_recorded = options_.record_steps;
  check_roles(deployment, "deployment");
  add_engines();
  router_ = deployment.make_router(deployment.router);
  if (has_role(deployment, Role::decode)) {
    // Decode engines have no queue in front and no prefixes to look for.
    RouterOptions decode_options = deployment.router;
    const bool other = router_->is_shared_queue() || router_->looks_for_prefixes();
    if (other) decode_options.name = "least_tokens";
    decode_router_ = other ? make_router(decode_options) : deployment.make_router(decode_options);
  }
  start_at_.resize(engines_.size(), kNever);
  handovers_.resize(engines_.size() + 1);
  sender_free_.resize(engines_.size(), 0);
  replica_of_.resize(traffic.requests.size(), -1);
}

void Simulation::add_engines() {
  std::map<std::int32_t, std::set<std::size_t>> users;  // of devices
  for (std::size_t i = 0; i < deployment_.replicas.size(); ++i) {
    for (const std::int32_t device : devices_of(deployment_.replicas[i])) users[device].insert(i);
  }
  for (std::size_t i = 0; i < deployment_.replicas.size(); ++i) {
    const Replica& replica = deployment_.replicas[i];
    std::set<std::size_t> peers;
    for (const std::int32_t device : devices_of(replica)) peers.merge(std::set(users[device]));
    peers.erase(i);
    peers_.emplace_back(peers.begin(), peers.end());
    engines_.push_back(std::make_unique<EngineRun>(
        replica, traffic_, options_, static_cast<std::int32_t>(i), log_, clocks_, !peers.empty()));
    const auto plan = [&](Kind kind, double at_s, const char* field) {
      const Ticks at = to_ticks(at_s, field);
      if (at <= horizon_) push({at, kind, static_cast<std::int64_t>(i), 0});
    };
    if (replica.from_s > 0) {
      plan(Kind::come, replica.from_s, "from_s");
    } else {
      (replica.role == Role::decode ? decode_ : entry_).push_back(i);
    }
    if (replica.until_s) plan(Kind::go, *replica.until_s, "until_s");
  }
}

void Simulation::send_first() {
  if (!is_replayed()) return arrivals_.begin();
  const std::vector<RequestRecord>& records = options_.recorded->log->requests;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (records[i].taken == kNever) continue;
    push({records[i].taken, Kind::arrival, static_cast<std::int64_t>(i), 0});
  }
}

void Simulation::arrive(std::int64_t request, Ticks now) {
  const auto index = static_cast<std::size_t>(request);
  Ticks leaves = kNever;
  if (is_replayed()) {
    const RequestRecord& record = options_.recorded->log->requests[index];
    log_.requests[index].arrival = record.arrival;
    leaves = record.cancelled;
  } else {
    log_.requests[index].arrival = now - api_;
    leaves = arrivals_.leaves_at(request, now);
    arrivals_.came(request, now);
  }
  if (leaves != kNever) push({leaves, Kind::cancel, request, 0});
  route(request, now);
}

const std::vector<ReplicaLoad>& Simulation::loads(Router& router,
                                                  const std::vector<std::size_t>& candidates,
                                                  Ticks now) {
  Signals& signals = &router == decode_router_.get() ? decode_signals_ : entry_signals_;
  const Ticks age = to_ticks(deployment_.router.signal_age_s, "signal_age_s");
  if (signals.read_at >= 0 && now - signals.read_at < age) return signals.loads;
  signals.loads.clear();
  for (const std::size_t candidate : candidates) {
    signals.loads.push_back(
        engines_[candidate]->load(now, router.looks_at_blocks(), is_over(candidate)));
  }
  signals.read_at = age > 0 ? now / age * age : now;
  return signals.loads;
}

std::size_t Simulation::choose(Router& router, const std::vector<std::size_t>& candidates,
                               std::int64_t request, Ticks now) {
  if (candidates.size() == 1) return candidates.front();
  const Request& r = traffic_.requests[static_cast<std::size_t>(request)];
  RoutedRequest routed;
  routed.request = request;
  routed.prompt_tokens = r.prompt_tokens;
  routed.max_tokens = r.max_tokens > 0 ? r.max_tokens : r.output_tokens;
  routed.priority = r.priority;
  routed.slo_class = r.slo_class;
  routed.cached_tokens = [&](std::size_t position) {
    return cached_tokens(candidates.at(position), request, now);
  };
  const std::vector<ReplicaLoad>& seen = loads(router, candidates, now);
  const std::size_t position = router.choose(seen, routed);
  if (position >= candidates.size()) {
    refuse("router", "chose replica {} of {} (0-based)", position, candidates.size());
  }
  // What it sent itself it knows, however old the signals are.
  Signals& signals = &router == decode_router_.get() ? decode_signals_ : entry_signals_;
  ++signals.loads[position].num_waiting;
  signals.loads[position].pending_tokens += r.prompt_tokens;
  return candidates[position];
}

void Simulation::route(std::int64_t request, Ticks now) {
  if (router_->is_shared_queue() || entry_.empty()) {
    shared_queue_.push_back(request);
    return drain_shared_queue(now);
  }
  submit(request, choose(*router_, entry_, request, now), now);
}

void Simulation::drain_shared_queue(Ticks now) {
  for (const std::size_t i : entry_) {
    while (!shared_queue_.empty() &&
           static_cast<std::int64_t>(engines_[i]->scheduler().num_unfinished()) <
               deployment_.replicas[i].engine.max_num_seqs) {
      const std::int64_t request = shared_queue_.front();
      shared_queue_.pop_front();
      submit(request, i, now);
    }
  }
}

void Simulation::submit(std::int64_t request, std::size_t replica, Ticks now) {
  replica_of_[static_cast<std::size_t>(request)] = static_cast<std::int32_t>(replica);
  if (!engines_[replica]->submit(request, now)) {
    ++num_ended_;
    return request_over(request, now);
  }
  came(replica, now);
}

// Something to do has come to a replica.
void Simulation::came(std::size_t replica, Ticks now) {
  EngineRun& engine = *engines_[replica];
  engine.cut_stretch(now);
  push_ends(replica);
  if (engine.core().has_room_for_news()) ask_start(replica, now);
}

void Simulation::ask_start(std::size_t replica, Ticks time) {
  if (start_at_[replica] <= time) return;
  start_at_[replica] = time;
  push({time, Kind::start, static_cast<std::int64_t>(replica), 0});
}

// At equal ticks ends of steps come first, by number.
bool Simulation::is_over(std::size_t replica) const {
  return current_.kind != Kind::step_end || static_cast<std::int64_t>(replica) < current_.id;
}

// Brings a replica to where single steps would have it now, before its blocks are looked at or
// changed. @return whether that ended a step of it
bool Simulation::settle(std::size_t replica, Ticks now) {
  EngineRun& engine = *engines_[replica];
  engine.catch_up(now);
  engine.cut_stretch(now);
  push_ends(replica);
  if (is_over(replica) && engine.ends_at(now)) {
    end_step(replica, now);
    return true;
  }
  engine.catch_up_ahead(now);
  return false;
}

std::int64_t Simulation::cached_tokens(std::size_t replica, std::int64_t request, Ticks now) {
  EngineRun& engine = *engines_[replica];
  if (!engine.caches_prefixes()) return 0;
  if (engine.scheduler().decides_ahead()) {
    settle(replica, now);
  } else {
    engine.catch_up(now);
  }
  return engine.cached_tokens(request);
}

void Simulation::push_ends(std::size_t replica) {
  engines_[replica]->take_ends([&](const EngineRun::StepEnd& end) {
    push({end.time, Kind::step_end, static_cast<std::int64_t>(replica), end.version});
  });
}

// Stretches on its devices are broken off, as it will take turns with them.
// @return whether that ended a step of an engine, which may be the one to decide first
bool Simulation::interrupt_peers(std::size_t replica, Ticks now) {
  bool ended = false;
  for (const std::size_t peer : peers_[replica]) {
    if (engines_[peer]->is_in_stretch()) ended |= settle(peer, now);
  }
  return ended;
}

bool Simulation::is_alone(std::size_t replica) const {
  return std::all_of(peers_[replica].begin(), peers_[replica].end(),
                     [&](std::size_t peer) { return engines_[peer]->core().is_idle(); });
}

void Simulation::start(std::size_t replica, Ticks now) {
  if (start_at_[replica] != now) return;  // it was asked for earlier meanwhile
  if (interrupt_peers(replica, now)) return push({now, Kind::start, current_.id, 0});
  start_at_[replica] = kNever;
  EngineRun& engine = *engines_[replica];
  engine.note_decisions(now);
  while (engine.core().has_room() && !stopped_) {
    Ticks retry = kNever;
    const bool alone = is_alone(replica);
    const bool started = engine.start_step(now, alone, retry);
    push_ends(replica);
    if (!started) {
      if (retry != kNever && retry > now) ask_start(replica, engine.decides_at(retry));
      break;
    }
    if (++num_starts_ >= options_.most_steps) {
      stopped_ = true;
      log_.cut_off = fmt::format("{} steps were taken", num_starts_);
    }
  }
  try_handovers(replica, now);  // a preemption may have made room
}

void Simulation::end_step(std::size_t replica, Ticks now) {
  EngineRun& engine = *engines_[replica];
  std::vector<Ended> ended;
  engine.end_step(now, ended);
  log_.end = std::max(log_.end, now);
  for (const Ended& e : ended) has_ended(e, replica, now);
  if (engine.core().is_circling()) return give_up(engine);
  try_handovers(replica, now);
  if (router_->is_shared_queue()) drain_shared_queue(now);
  ask_start(replica, now);
}

void Simulation::has_ended(const Ended& ended, std::size_t replica, Ticks now) {
  RequestRecord& record = log_.requests[static_cast<std::size_t>(ended.request)];
  if (ended.hold) {
    const Ticks started =
        record.decode_started > 0 ? record.decode_started : record.first_scheduled;
    record.decode_started = kNever;
    return hand_over({ended.request, replica, 0, started, now}, now);
  }
  record.outcome = Outcome::finished;
  ++num_ended_;
  if (options_.on_end && !stopped_ && !options_.on_end(record, ended.request)) {
    stopped_ = true;
    log_.cut_off = "the verdict was settled";
  }
  request_over(ended.request, now);
}

void Simulation::request_over(std::int64_t request, Ticks now) {
  if (!is_replayed()) arrivals_.over(request, now);
}

// A client leaves: wherever its request is, its blocks are free for others. What is on the wire is
// not recalled: both ends keep their blocks until it has come.
void Simulation::cancel(std::int64_t request, Ticks now) {
  const auto index = static_cast<std::size_t>(request);
  RequestRecord& record = log_.requests[index];
  if (record.outcome != Outcome::unfinished) return;
  const std::int32_t at = replica_of_[index];
  const auto replica = static_cast<std::size_t>(at);
  const auto waiting = std::find(shared_queue_.begin(), shared_queue_.end(), request);
  const auto transfer = under_way_.find(request);
  if (waiting != shared_queue_.end()) {
    shared_queue_.erase(waiting);
  } else if (transfer != under_way_.end()) {
    transfer->second.cancelled = true;
  } else if (!cancel_handover(request, now)) {
    settle(replica, now);
    engines_[replica]->cancel(request, now);
    try_handovers(replica, now);
    if (router_->is_shared_queue()) drain_shared_queue(now);
    came(replica, now);
  }
  record.outcome = Outcome::cancelled;
  record.cancelled = now;
  ++num_ended_;
  request_over(request, now);
}

// Before what happens at that moment, whatever is under way.
StateSample Simulation::state(Ticks now) const {
  StateSample sample;
  for (const auto& engine : engines_) {
    const ReplicaLoad load = engine->load(now, true, false);
    sample.num_waiting += load.num_waiting;
    sample.num_running += load.num_running;
    sample.used_blocks += load.used_blocks;
    sample.output_tokens += engine->output_tokens(now);
  }
  sample.num_waiting += static_cast<std::int64_t>(shared_queue_.size());
  return sample;
}

void Simulation::give_up(const EngineRun& engine) {
  stopped_ = true;
  log_.stuck = true;
  log_.cut_off = why_circling(engine.core(), engine.replica());
}

void Simulation::explain_stall() {
  const auto count = static_cast<std::int64_t>(traffic_.requests.size());
  if (num_ended_ >= count || stopped_ || !log_.cut_off.empty()) return;
  if (!handovers_.back().empty()) {
    log_.stuck = true;
    log_.cut_off = fmt::format("{} requests that were read wait for a decode engine to come",
                               handovers_.back().size());
    return;
  }
  for (const auto& engine : engines_) {
    if (!engine->core().is_stalled()) continue;
    log_.stuck = true;
    log_.cut_off = why_stalled(engine->core(), engine->replica());
    return;
  }
  log_.stuck = true;
  log_.cut_off = fmt::format("{} requests were never sent or never ended", count - num_ended_);
}

Log Simulation::run() {
  send_first();
  while (!events_.empty() && !stopped_) {
    const Event event = events_.top();
    if (event.time > horizon_) {
      log_.cut_off = fmt::format("the horizon of {} s was reached", options_.horizon_s);
      break;
    }
    events_.pop();
    current_ = event;
    if (++num_events_ % kPollEvery == 0 && options_.poll) options_.poll(num_ended_);
    const auto index = static_cast<std::size_t>(event.id);
    const bool is_old = event.kind == Kind::step_end && !engines_[index]->is_current(event.version);
    while (!is_old && event.time >= samples_.next()) samples_.add(state(samples_.next()));
    switch (event.kind) {
      case Kind::step_end:
        if (!is_old) end_step(index, event.time);
        break;
      case Kind::transfer_end:
        end_transfer(event.id, event.time);
        break;
      case Kind::cancel:
        cancel(event.id, event.time);
        break;
      case Kind::go:
        go(index, event.time);
        break;
      case Kind::come:
        come(index, event.time);
        break;
      case Kind::arrival:
        arrive(event.id, event.time);
        break;
      case Kind::start:
        start(index, event.time);
        break;
    }
  }
  explain_stall();
  log_.samples = samples_.take(log_.end);
  for (const auto& engine : engines_) engine->close(log_.end);
  if (log_.steps_recorded) {
    std::stable_sort(log_.steps.begin(), log_.steps.end(),
                     [](const StepRecord& a, const StepRecord& b) { return a.start < b.start; });
  }
  return std::move(log_);
}

Log simulate(const Deployment& deployment, const Traffic& traffic, SimulationOptions options) {
  return Simulation(deployment, traffic, std::move(options)).run();
}

}  // namespace tessera::serving
