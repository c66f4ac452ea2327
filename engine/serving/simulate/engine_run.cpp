#include "engine_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/serving/accepted_drafts.h"
#include "tessera/serving/engine_setup.h"

namespace tessera::serving {
namespace {

BlockManager::Options kv_of(const Replica& replica, const SimulationOptions& options) {
  BlockManager::Options kv = kv_options(replica);
  kv.named = options.named_blocks;
  return kv;
}

}  // namespace

EngineRun::EngineRun(const Replica& replica, const Traffic& traffic,
                     const SimulationOptions& options, std::int32_t number, Log& log,
                     DeviceClocks& clocks, bool shared)
    : replica_(replica),
      traffic_(traffic),
      log_(log),
      options_(options),
      number_(static_cast<std::size_t>(number)),
      skip_(options.skip && !options.record_steps && !options.on_step),
      horizon_(to_ticks(options.horizon_s, "horizon_s")),
      num_stages_(replica.cost->num_stages()),
      prefill_only_(replica.role == Role::prefill),
      core_(scheduler_of(replica, kv_of(replica, options)),
            Ledger(log, number, options.record_steps), {.num_stages = num_stages_}),
      stretches_(core_.scheduler()),
      stages_(*replica.cost, swap_per_block(replica)) {
  if (options.recorded != nullptr) {
    for (const StepRecord& step : options.recorded->log->steps) {
      if (step.replica == number) recorded_steps_.push_back(&step);
    }
  }
  for (std::size_t k = 0; k < replica.devices.size(); ++k) {
    std::vector<DeviceClock*> shared_clocks;
    for (const std::int32_t device : replica.devices[k]) shared_clocks.push_back(&clocks[device]);
    stages_.share(k, std::move(shared_clocks));
  }
  // Where engines take turns, tokens of a lockstep need not follow each other at once.
  if (skip_ && num_stages_ == 1 && !replica.cost->has_queues() && !shared) {
    core_.scheduler().keep_in_step(options.least_in_step);
  }
  if (const auto& speculative = replica.engine.speculative) {
    found_ = speculative->found;
    rates_ = cumulative_rates(speculative->acceptance, speculative->num_tokens,
                              "speculative.acceptance");
  }
}

Sequence EngineRun::sequence_of(std::int64_t request) const {
  const auto index = static_cast<std::size_t>(request);
  Sequence s =
      serving::sequence_of(traffic_, traffic_.requests[index], log_.requests[index].arrival);
  s.request = request;
  s.known += log_.requests[index].output_tokens;
  if (prefill_only_) s.max_tokens = s.known - s.prompt_tokens + 1;
  if (options_.recorded) fill_in_content(s);
  return s;
}

void EngineRun::fill_in_content(Sequence& s) const {
  if (options_.recorded->tokens.empty()) return;
  const std::vector<Token>& tokens = options_.recorded->tokens[static_cast<std::size_t>(s.request)];
  s.content.tokens = std::make_shared<TokenChain>(replica_.engine.block_size);
  s.content.tokens->append(std::span(tokens).first(static_cast<std::size_t>(s.known)));
}

// An engine that only reads prompts brings one token more than there are, also of what somebody
// gave back.
std::int64_t EngineRun::find_output(std::int64_t request) const {
  const auto index = static_cast<std::size_t>(request);
  if (prefill_only_) return log_.requests[index].output_tokens + 1;
  return serving::output_of(traffic_.requests[index], replica_.engine);
}

bool EngineRun::submit(std::int64_t request, Ticks now) {
  return core_.submit(sequence_of(request), now);
}

Sequence EngineRun::loading_sequence(std::int64_t request) const {
  Sequence s = sequence_of(request);
  s.computed = s.known - 1;
  return s;
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
  fly(*work, flight, now);
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

void EngineRun::fly(const Work& work, Flight& flight, Ticks now) {
  flight.times = stages_.take(work.batch, now, options_.record_passes ? &flight.passes : nullptr);
  if (const Ticks delay = stages_.delay_by_others(); delay > 0) {
    core_.ledger().delayed(scheduler(), work.batch, now, delay);
  }
  if (options_.recorded == nullptr || !options_.recorded->with_times) return;
  const StepRecord* step = recorded_step(work.step);
  const Ticks start = step == nullptr ? now : std::max(now, step->start);
  const Ticks end = step == nullptr ? options_.recorded->end + 1 : step->start + step->duration;
  flight.times = StepTimes::of(start, std::max(start, end));
}

// What was recorded of a step; null: nothing, as the other run did not take it.
const StepRecord* EngineRun::recorded_step(std::int64_t step) const {
  if (step >= std::ssize(recorded_steps_)) return nullptr;
  return recorded_steps_[static_cast<std::size_t>(step)];
}

Ticks EngineRun::decides_at(Ticks asked) const {
  if (options_.recorded == nullptr || !options_.recorded->with_times) return asked;
  const std::vector<Ticks>& retries = options_.recorded->log->replicas[number_].retries;
  const auto next = std::lower_bound(retries.begin(), retries.end(), asked);
  return next == retries.end() ? kNever : *next;
}

// How many drafts pass, and how many there are next.
void EngineRun::guess(const BatchItem& item, std::int64_t number, Generated& g) const {
  if (options_.recorded == nullptr) {
    const std::int64_t place = core_.ledger().progress(item.slot).output_tokens;
    // By a draw of its own: whether drafts pass says nothing of whether there are any next.
    if (found_ < 1 && draw_at(~options_.seed, item.request, place) >= found_) g.next_drafts = 0;
    if (item.drafts == 0) return;
    g.accepted = std::min(item.drafts, accepted_drafts(options_.seed, item.request, place, rates_));
    return;
  }
  const StepRecord* step = recorded_step(number);
  if (step == nullptr) return;
  const auto found = std::lower_bound(
      step->drafts.begin(), step->drafts.end(), item.request,
      [](const DraftRecord& a, std::int64_t request) { return a.request < request; });
  if (found == step->drafts.end() || found->request != item.request) return;
  g.accepted = std::min(item.drafts, found->accepted);
  g.next_drafts = found->next_drafts;
}

// Real tokens of an output, as far as they were recorded.
std::span<const Token> EngineRun::recorded_tokens(std::int64_t request, std::int64_t from,
                                                  std::int64_t count) const {
  if (options_.recorded->tokens.empty()) return {};
  const auto index = static_cast<std::size_t>(request);
  const std::span<const Token> all = options_.recorded->tokens[index];
  const std::int64_t first =
      std::min<std::int64_t>(traffic_.requests[index].prompt_tokens + from, std::ssize(all));
  return all.subspan(static_cast<std::size_t>(first),
                     static_cast<std::size_t>(std::min(count, std::ssize(all) - first)));
}

// What a model would say, from the lengths of the traffic.
inline Generated EngineRun::generate(const BatchItem& item, std::int64_t step) {
  Ledger::Progress& p = core_.ledger().progress(item.slot);
  const std::int64_t left = output_of(p) - p.output_tokens;
  Generated g;
  guess(item, step, g);
  g.tokens = std::min(g.accepted + 1, left);
  if (options_.recorded) g.token_ids = recorded_tokens(item.request, p.output_tokens, g.tokens);
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
    stages_.go_on(0, flight.times.start + flight.times.first, flight.times.end);
    if (flight.is_followed) take_next(work, core_.under_way(1), flights_.front().times);
  }
  leave_before_end(work.batch);
  if (options_.on_step) options_.on_step(core_, work, flight.times, flight.passes);
  const std::int64_t step = work.step;
  const auto result_of = [&](std::size_t i) { return generate(work.batch.items[i], step); };
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
  core_.ledger().close(scheduler(), end, !core_.is_idle(), card, stages_.busy());
}

}  // namespace tessera::serving
