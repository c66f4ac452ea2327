#include "engine_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/serving/accepted_drafts.h"

namespace tessera::serving {
namespace {

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

std::unique_ptr<Scheduler> scheduler_of(const Replica& replica) {
  auto scheduler = replica.make_scheduler(replica.engine, kv_options(replica));
  if (scheduler->decides_ahead()) {
    const std::string why_not = why_step_by_step(replica.engine, replica.cost->num_stages());
    if (!why_not.empty()) refuse("engine.async_scheduling", "{}", why_not);
  }
  return scheduler;
}

}  // namespace

EngineRun::EngineRun(const Replica& replica, const Traffic& traffic,
                     const SimulationOptions& options, std::int32_t number, Log& log,
                     DeviceClocks& clocks, bool shared)
    : replica_(replica),
      traffic_(traffic),
      log_(log),
      options_(options),
      skip_(options.skip && !options.record_steps && !options.on_step),
      horizon_(to_ticks(options.horizon_s, "horizon_s")),
      num_stages_(replica.cost->num_stages()),
      prefill_only_(replica.role == Role::prefill),
      core_(scheduler_of(replica), Ledger(log, number, options.record_steps),
            {.num_stages = num_stages_}),
      stretches_(core_.scheduler()),
      own_free_(num_stages_, 0),
      clocks_(num_stages_),
      stage_busy_(num_stages_, 0),
      link_free_(num_stages_, 0) {
  for (std::size_t k = 0; k < num_stages_; ++k) {
    if (replica.devices.empty()) clocks_[k] = {&own_free_[k]};
    for (std::size_t i = 0; !replica.devices.empty() && i < replica.devices[k].size(); ++i) {
      clocks_[k].push_back(&clocks[replica.devices[k][i]]);
    }
  }
  // Where engines take turns, tokens of a lockstep need not follow each other at once.
  if (skip_ && num_stages_ == 1 && !replica.cost->has_queues() && !shared) {
    core_.scheduler().keep_in_step(options.least_in_step);
  }
  if (const auto& speculative = replica.engine.speculative) {
    rates_ = cumulative_rates(speculative->acceptance, speculative->num_tokens,
                              "speculative.acceptance");
  }
  if (replica.engine.swap_bytes_per_s > 0) {
    swap_per_block_ =
        to_ticks(replica.kv_bytes_per_token * static_cast<double>(replica.engine.block_size) /
                     replica.engine.swap_bytes_per_s,
                 "swap_bytes_per_s");
  }
}

Sequence EngineRun::sequence_of(std::int64_t request) const {
  const Request& r = traffic_.requests[static_cast<std::size_t>(request)];
  Sequence s;
  s.request = request;
  s.arrival = log_.requests[static_cast<std::size_t>(request)].arrival;
  s.priority = r.priority;
  s.slo_class = r.slo_class;
  s.prompt_tokens = r.prompt_tokens;
  s.known = s.prompt_tokens + log_.requests[static_cast<std::size_t>(request)].output_tokens;
  s.max_tokens = prefill_only_      ? s.known - s.prompt_tokens + 1
                 : r.max_tokens > 0 ? r.max_tokens
                                    : r.output_tokens;
  s.content.prefix_group = r.prefix_group;
  s.content.prefix_tokens = r.prefix_group >= 0 ? r.prefix_tokens : 0;
  s.content.stream = r.stream;
  s.content.block_ids = traffic_.block_ids.data() + r.first_block_id;
  s.content.num_block_ids = r.num_block_ids;
  s.content.block_id_tokens = traffic_.block_id_tokens;
  return s;
}

// The model's context ends a request too. An engine that only reads prompts brings one token more
// than there are, also of what somebody gave back.
std::int64_t EngineRun::find_output(std::int64_t request) const {
  const Request& r = traffic_.requests[static_cast<std::size_t>(request)];
  if (prefill_only_) return log_.requests[static_cast<std::size_t>(request)].output_tokens + 1;
  std::int64_t most = r.output_tokens;
  if (r.max_tokens > 0) most = std::min(most, r.max_tokens);
  const std::int64_t len = replica_.engine.max_model_len;
  return len > 0 ? std::min(most, std::max<std::int64_t>(1, len - r.prompt_tokens)) : most;
}

bool EngineRun::submit(std::int64_t request, Ticks now) {
  return core_.submit(sequence_of(request), now);
}

Sequence EngineRun::loading_sequence(std::int64_t request) const {
  Sequence s = sequence_of(request);
  s.computed = s.known - 1;
  return s;
}

bool EngineRun::may_load(std::int64_t request) const {
  return scheduler().may_load(loading_sequence(request));
}

bool EngineRun::begin_loading(std::int64_t request, Ticks now) {
  return core_.begin_loading(loading_sequence(request), now);
}

bool EngineRun::start_step(Ticks now, bool alone, Ticks& retry) {
  retry = kNever;
  if (!core_.has_room()) return false;
  const Work* work = core_.decide(now);
  if (work == nullptr) {
    retry = core_.decide_again();
    return false;
  }
  Flight flight;
  fly(work->batch, flight, now);
  check_joined(work->batch, flight.times.start);
  if (skip_ && num_stages_ == 1 && alone) plan_stretch(work->batch, flight);
  const StepTimes times = flight.times;
  const bool is_followed = flight.is_followed;
  renew(flights_.emplace_back(std::move(flight)));
  if (!is_followed) return true;
  core_.push_empty();
  Flight next;
  next.go_on_from(times);
  renew(flights_.emplace_back(std::move(next)));
  return true;
}

// Who joins the lockstep has to have had its last token at the end of the step before, and to get
// another.
void EngineRun::check_joined(const Batch& batch, Ticks start) {
  // A request that leaves again changes the batch.
  for (const Slot slot : batch.joined) {
    const Sequence& s = scheduler().sequence(slot);
    Ledger::Progress& p = core_.ledger().progress(slot);
    const bool is_regular =
        scheduler().decides_ahead() ? s.num_under_way == 1 : p.last_token == start;
    const std::int64_t left = output_of(p) - p.output_tokens - s.num_under_way;
    if (is_regular && left > 0) {
      last_steps_.push({batch.lockstep + left - 1, slot, batch.lockstep});
    } else {
      core_.leave_step(slot);
    }
  }
}

void EngineRun::leave_before_end(const Batch& batch) {
  while (!last_steps_.empty() && last_steps_.top().step <= batch.lockstep) {
    const LastStep last = last_steps_.top();
    last_steps_.pop();
    const Lockstep& lockstep = scheduler().lockstep();
    if (lockstep.joined(last.slot) == last.joined) core_.leave_step(last.slot);
  }
}

/// Its end is new or has moved.
void EngineRun::renew(Flight& flight) {
  flight.version = next_version_++;
  new_ends_.push_back({flight.times.end, flight.version});
}

Ticks EngineRun::stage_free(std::size_t stage) const {
  Ticks free = 0;
  for (const Ticks* clock : clocks_[stage]) free = std::max(free, *clock);
  return free;
}

// A step on a stage or a link, from `at` on, which is `free` then.
Ticks EngineRun::pass(Flight& flight, Ticks at, Ticks& free, Ticks ticks) const {
  const bool queues = replica_.cost->has_queues();
  if (!queues || ticks > 0) at = std::max(at, free);
  if (ticks < 0 || ticks > kNever / 2 - at) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("the run passes {} s; fewer requests or a higher rate end earlier",
                            kLongestRun_s));
  }
  if (options_.record_passes) flight.passes.push_back({at, ticks});
  if (!queues || ticks > 0) free = at + ticks;
  return at + ticks;
}

void EngineRun::fly(const Batch& batch, Flight& flight, Ticks now) {
  const StepLoad& load = batch.load;
  const bool queues = replica_.cost->has_queues();
  const Ticks start = queues ? now : std::max(now, stage_free(0));
  Ticks at = start;
  for (std::size_t k = 0; k < num_stages_; ++k) {
    Ticks ticks = replica_.cost->stage(load, k);
    if (k == 0) ticks += swap_per_block_ * static_cast<Ticks>(batch.moves.size());
    Ticks free = stage_free(k);
    at = pass(flight, at, free, ticks);
    hold_stage(k, free);
    stage_busy_[k] += ticks;
    if (k + 1 == num_stages_) break;
    Ticks no_queue = 0;
    at = pass(flight, at, queues ? link_free_[k] : no_queue, replica_.cost->hop(load, k));
  }
  flight.times = StepTimes::of(start, at);
}

// What a model would say, from the lengths of the traffic.
inline Generated EngineRun::generate(const BatchItem& item) {
  Ledger::Progress& p = core_.ledger().progress(item.slot);
  const std::int64_t left = output_of(p) - p.output_tokens;
  Generated g;
  if (item.drafts > 0) {
    g.accepted = std::min(item.drafts,
                          accepted_drafts(options_.seed, item.request, p.output_tokens, rates_));
  }
  g.tokens = std::min(g.accepted + 1, left);
  g.ended = g.tokens >= left;
  if (g.ended && prefill_only_) {
    const Request& r = traffic_.requests[static_cast<std::size_t>(item.request)];
    const std::int64_t most = r.max_tokens > 0 ? r.max_tokens : r.output_tokens;
    g.hold = p.output_tokens + 1 < std::min(most, r.output_tokens);
  }
  return g;
}

void EngineRun::end_step(Ticks now, std::vector<Ended>& ended) {
  core_.account(now);
  const Flight flight = std::move(flights_.front());
  flights_.pop_front();
  Work& work = core_.under_way(0);
  if (flight.is_stretch()) {
    account_stretch(work.batch, flight, flight.times.end);
    take_steps(work.batch, flight.times.count - 1);
    stage_busy_[0] += flight.times.end - flight.times.start - flight.times.first;
    hold_stage(0, flight.times.end);
    if (flight.is_followed) take_next(work, core_.under_way(1), flights_.front().times);
  }
  leave_before_end(work.batch);
  if (options_.on_step) options_.on_step(work.batch, flight.times, flight.passes);
  const auto result_of = [&](std::size_t i) { return generate(work.batch.items[i]); };
  core_.finish(flight.times, result_of, ended);
}

ReplicaLoad EngineRun::load(Ticks now, bool blocks, bool is_over) const {
  const BlockManager& kv = scheduler().kv();
  ReplicaLoad load;
  load.num_waiting = static_cast<std::int64_t>(scheduler().num_waiting());
  load.num_running = scheduler().num_running();
  load.pending_tokens = scheduler().pending_tokens();
  load.kv_blocks = kv.num_blocks();
  load.block_size = kv.block_size();
  load.num_seats = replica_.engine.max_num_seqs;
  load.share = replica_.share;
  if (blocks) load.used_blocks = load.kv_blocks - kv.num_free();
  if (flights_.empty() || !flights_.front().is_stretch()) return load;
  const Flight& flight = flights_.front();
  const Batch& batch = core_.under_way(0).batch;
  // Between two of its steps each request has a token that is to be computed.
  if (is_over && !scheduler().decides_ahead() && flight.ends_at(now)) {
    load.pending_tokens += std::ssize(batch.items);
  }
  if (blocks) {
    for_each_taken(batch, flight, [&](Ticks time) { load.used_blocks += time < now ? 1 : 0; });
  }
  return load;
}

std::int64_t EngineRun::output_tokens(Ticks now) const {
  std::int64_t tokens = core_.ledger().output_tokens();
  if (!flights_.empty() && flights_.front().times.count > 1) {
    const Flight& flight = flights_.front();
    tokens += (flight.steps_until(now) - 1) * std::ssize(core_.under_way(0).batch.items);
  }
  return tokens;
}

std::int64_t EngineRun::cached_tokens(std::int64_t request) const {
  Sequence s = sequence_of(request);
  s.content.own = static_cast<std::uint64_t>(request);
  s.content.prompt_tokens = s.prompt_tokens;
  const BlockManager& kv = scheduler().kv();
  return kv.find_prefix(s.content, s.prompt_tokens - 1) * kv.block_size();
}

void EngineRun::close(Ticks end) {
  core_.leave_steps();
  const EngineCard card{replica_.name, replica_.usd_per_h, replica_.idle_w, replica_.busy_w};
  core_.ledger().close(scheduler(), end, !core_.is_idle(), card, stage_busy_);
}

}  // namespace tessera::serving
