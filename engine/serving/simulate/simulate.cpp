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

bool meet(const std::set<std::int32_t>& a, const std::set<std::int32_t>& b) {
  return std::ranges::any_of(a, [&](std::int32_t device) { return b.contains(device); });
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
  if (!deployment.models) check_roles(deployment, "deployment");
  replica_of_.resize(traffic.requests.size(), -1);
  make_fronts();
  add_engines();
  if (deployment.models) plan_models();
}

std::size_t Simulation::add_engine(const Replica& replica) {
  const std::size_t i = engines_.size();
  const std::set<std::int32_t> devices = devices_of(replica);
  peers_.emplace_back();
  for (std::size_t other = 0; other < i && !devices.empty(); ++other) {
    if (!meet(devices, devices_of(engines_[other]->replica()))) continue;
    peers_[i].push_back(other);
    peers_[other].push_back(i);
  }
  // Who comes later may share, too.
  const bool shared =
      deployment_.models ||
      (!devices.empty() && std::ranges::any_of(deployment_.replicas, [&](const Replica& r) {
        return &r != &replica && meet(devices, devices_of(r));
      }));
  engines_.push_back(std::make_unique<EngineRun>(
      replica, traffic_, options_, static_cast<std::int32_t>(i), log_, clocks_, shared));
  start_at_.push_back(kNever);
  sender_free_.push_back(0);
  ready_at_.push_back(0);
  return i;
}

void Simulation::add_engines() {
  for (const Replica& replica : deployment_.replicas) {
    const std::size_t i = add_engine(replica);
    const auto plan = [&](Kind kind, double at_s, const char* field) {
      const Ticks at = to_ticks(at_s, field);
      if (at <= horizon_) push({at, kind, key_of(i), 0});
    };
    if (replica.from_s > 0) {
      plan(Kind::come, replica.from_s, "from_s");
    } else {
      front_of_engine(i).engines.push_back(i);
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
  time = std::max(time, ready_at_[replica]);
  if (start_at_[replica] <= time) return;
  start_at_[replica] = time;
  push({time, Kind::start, key_of(replica), 0});
}

// At equal ticks ends of steps come first, by number.
bool Simulation::is_over(std::size_t replica) const {
  return current_.kind != Kind::step_end || key_of(replica) < current_.id;
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
    push({end.time, Kind::step_end, key_of(replica), end.version});
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
  handovers_.try_waiting(replica, now);  // a preemption may have made room
}

void Simulation::end_step(std::size_t replica, Ticks now) {
  EngineRun& engine = *engines_[replica];
  std::vector<Ended> ended;
  engine.end_step(now, ended);
  log_.end = std::max(log_.end, now);
  for (const Ended& e : ended) has_ended(e, replica, now);
  if (engine.core().is_circling()) return give_up(engine);
  handovers_.try_waiting(replica, now);
  Front& front = front_of_engine(replica);
  if (front.router->is_shared_queue()) drain(front, now);
  if (memory_) free_memory(replica, now);
  ask_start(replica, now);
}

void Simulation::has_ended(const Ended& ended, std::size_t replica, Ticks now) {
  RequestRecord& record = log_.requests[static_cast<std::size_t>(ended.request)];
  if (ended.hold) {
    const Ticks started =
        record.decode_started > 0 ? record.decode_started : record.first_scheduled;
    record.decode_started = kNever;
    return handovers_.hand_over({ended.request, replica, 0, started, now}, now);
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

// A client leaves: wherever its request is, its blocks are free for others.
void Simulation::cancel(std::int64_t request, Ticks now) {
  const auto index = static_cast<std::size_t>(request);
  RequestRecord& record = log_.requests[index];
  if (record.outcome != Outcome::unfinished) return;
  const std::int32_t at = replica_of_[index];
  const auto replica = static_cast<std::size_t>(at);
  std::deque<std::int64_t>& queue = front_of(request).queue;
  const auto waiting = std::find(queue.begin(), queue.end(), request);
  if (waiting != queue.end()) {
    queue.erase(waiting);
  } else if (!handovers_.cancel(request, now)) {
    settle(replica, now);
    engines_[replica]->cancel(request, now);
    handovers_.try_waiting(replica, now);
    Front& front = front_of_engine(replica);
    if (front.router->is_shared_queue()) drain(front, now);
    if (memory_) free_memory(replica, now);
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
  for (const Front& front : fronts_) sample.num_waiting += std::ssize(front.queue);
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
  if (const std::size_t waiting = handovers_.num_without_target(); waiting > 0) {
    log_.stuck = true;
    log_.cut_off =
        fmt::format("{} requests that were read wait for a decode engine to come", waiting);
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
    const std::size_t index = engine_of(event.id);
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
      case Kind::leave:
        leave(static_cast<std::size_t>(event.id), event.time);
        break;
      case Kind::come:
        come(index, event.time);
        break;
      case Kind::place:
        place(static_cast<std::size_t>(event.id), event.time);
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
  if (memory_) close_models();
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
