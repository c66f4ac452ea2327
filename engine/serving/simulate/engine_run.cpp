// One replica during a run. Steps of one stage and nothing but decodes are taken as stretches; all
// sums over them are in closed form and in integers, so that they are what single steps give.

#include "engine_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/serving/accepted_drafts.h"

namespace tessera::serving {
namespace {

double as_double(WideSum value) { return static_cast<double>(value); }

}  // namespace

EngineRun::EngineRun(const Replica& replica, const Traffic& traffic, std::uint64_t seed, bool skip,
                     bool record_steps, Ticks horizon, std::int32_t number, Log& log)
    : replica_(replica),
      traffic_(traffic),
      seed_(seed),
      skip_(skip && !record_steps),
      record_steps_(record_steps),
      horizon_(horizon),
      number_(number),
      log_(log),
      num_stages_(replica.cost->num_stages()),
      prefill_only_(replica.role == Role::prefill),
      stage_free_(num_stages_, 0),
      stage_busy_(num_stages_, 0) {
  BlockManager::Options kv;
  kv.num_blocks = replica.kv_blocks;
  kv.block_size = replica.engine.block_size;
  kv.prefix_caching = replica.engine.enable_prefix_caching;
  kv.allocation = replica.engine.kv_allocation;
  kv.max_model_len = replica.engine.max_model_len;
  // Where nobody knows what a token takes, host memory holds as much as the device.
  kv.host_blocks = replica.kv_blocks;
  if (replica.kv_bytes_per_token > 0) {
    kv.host_blocks = static_cast<std::int64_t>(
        replica.engine.swap_space_gib * 1024 * 1024 * 1024 /
        (replica.kv_bytes_per_token * static_cast<double>(replica.engine.block_size)));
  }
  scheduler_ = replica.make_scheduler(replica.engine, kv);
  most_under_way_ = num_stages_;
  if (scheduler_->decides_ahead()) {
    const std::string why_not = why_step_by_step(replica.engine, num_stages_);
    if (!why_not.empty()) refuse("engine.async_scheduling", "{}", why_not);
    most_under_way_ = 2;
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
  s.max_tokens = prefill_only_ ? 1 : r.max_tokens > 0 ? r.max_tokens : r.output_tokens;
  s.content.prefix_group = r.prefix_group;
  s.content.prefix_tokens = r.prefix_group >= 0 ? r.prefix_tokens : 0;
  s.content.stream = r.stream;
  s.content.block_ids = traffic_.block_ids.data() + r.first_block_id;
  s.content.num_block_ids = r.num_block_ids;
  s.content.block_id_tokens = traffic_.block_id_tokens;
  return s;
}

// The model's context ends a request too.
std::int64_t EngineRun::output_of(std::int64_t request) const {
  const Request& r = traffic_.requests[static_cast<std::size_t>(request)];
  std::int64_t most = r.output_tokens;
  if (r.max_tokens > 0) most = std::min(most, r.max_tokens);
  const std::int64_t len = replica_.engine.max_model_len;
  if (len > 0) most = std::min(most, std::max<std::int64_t>(1, len - r.prompt_tokens));
  return prefill_only_ ? 1 : most;
}

bool EngineRun::submit(std::int64_t request, Ticks now) {
  Sequence s = sequence_of(request);
  RequestRecord& record = log_.requests[static_cast<std::size_t>(request)];
  if (!scheduler_->why_never(s.prompt_tokens, s.max_tokens).empty()) {
    record.outcome = Outcome::rejected;
    record.replica = number_;
    return false;
  }
  most_tokens_ = std::max(most_tokens_, s.prompt_tokens + s.max_tokens);
  note_limit(limit_, now);
  if (record.first_scheduled == kNever) {
    for (std::size_t i = 0; i < kNumLimits; ++i) record.waited[i] -= limit_ticks_[i];
  }
  note_slot(scheduler_->add(std::move(s)), request);
  return true;
}

void EngineRun::note_slot(Slot slot, std::int64_t request) {
  const auto i = static_cast<std::size_t>(slot);
  if (i >= progress_.size()) progress_.resize(i + 1);
  const RequestRecord& record = log_.requests[static_cast<std::size_t>(request)];
  progress_[i] = {request, record.output_tokens, output_of(request), record.last_token};
}

Sequence EngineRun::loading_sequence(std::int64_t request) const {
  Sequence s = sequence_of(request);
  s.known = s.prompt_tokens + log_.requests[static_cast<std::size_t>(request)].output_tokens;
  s.computed = s.prompt_tokens;
  return s;
}

bool EngineRun::may_load(std::int64_t request) const {
  return scheduler_->may_load(loading_sequence(request));
}

bool EngineRun::begin_loading(std::int64_t request, Ticks now) {
  account(now);
  Sequence s = loading_sequence(request);
  most_tokens_ = std::max(most_tokens_, s.prompt_tokens + s.max_tokens);
  Slot slot = 0;
  if (!scheduler_->add_loading(std::move(s), slot)) return false;
  loading_.emplace(request, slot);
  note_slot(slot, request);
  ++num_loading_;
  most_blocks_ =
      std::max(most_blocks_, scheduler_->kv().num_blocks() - scheduler_->kv().num_free());
  return true;
}

void EngineRun::finish_loading(std::int64_t request, Ticks) {
  const auto it = loading_.find(request);
  scheduler_->loaded(it->second);
  loading_.erase(it);
  --num_loading_;
}

void EngineRun::note_limit(Limit limit, Ticks now) {
  if (now > limit_since_) {
    limit_ticks_[static_cast<std::size_t>(limit_)] += now - limit_since_;
    if (limit_ == Limit::blocks) {
      const Ticks spent = now - limit_since_;
      refused_ticks_ += spent;
      unusable_ticks_ +=
          static_cast<WideSum>(scheduler_->slots_unusable()) * static_cast<WideSum>(spent);
    }
    limit_since_ = now;
  }
  limit_ = limit;
}

void EngineRun::admit_records(const Batch& batch, Ticks now) {
  for (const Slot slot : batch.admitted) {
    const Sequence& s = scheduler_->sequence(slot);
    RequestRecord& record = log_.requests[static_cast<std::size_t>(s.request)];
    if (record.decode_started == kNever) record.decode_started = now;
    if (record.first_scheduled != kNever) continue;
    record.first_scheduled = now;
    record.cached_tokens = s.cached_tokens;
    for (std::size_t i = 0; i < kNumLimits; ++i) record.waited[i] += limit_ticks_[i];
  }
}

StepUnderWay EngineRun::spare() {
  StepUnderWay step;
  if (spare_.empty()) return step;
  step = std::move(spare_.back());
  spare_.pop_back();
  step.is_followed = false;
  step.count = 1;
  return step;
}

bool EngineRun::start_step(Ticks now, Ticks& retry) {
  retry = kNever;
  if (!has_room()) return false;
  account(now);
  StepUnderWay step = spare();
  scheduler_->decide(now, step.batch);
  note_limit(step.batch.limit, now);
  admit_records(step.batch, now);
  const bool nothing = step.batch.items.empty() && step.batch.swapped_blocks == 0 &&
                       (step.batch.preempted.empty() || !is_idle());
  if (nothing) {
    retry = step.batch.decide_again;
    spare_.push_back(std::move(step));
    return false;
  }
  launch(step, now);
  if (!step.is_followed) {
    send(std::move(step));
    return true;
  }
  StepUnderWay next = spare();
  next.go_on_from(step);
  send(std::move(step));
  send(std::move(next));
  return true;
}

void EngineRun::send(StepUnderWay step) {
  renew(step);
  under_way_.push_back(std::move(step));
}

/// Its end is new or has moved.
void EngineRun::renew(StepUnderWay& step) {
  step.version = next_version_++;
  new_ends_.push_back({step.end, step.version});
}

void EngineRun::launch(StepUnderWay& step, Ticks now) {
  const BlockManager& kv = scheduler_->kv();
  step.num_waiting = static_cast<std::int64_t>(scheduler_->num_waiting());
  most_blocks_ = std::max(most_blocks_, kv.num_blocks() - kv.num_free());
  Ticks at = std::max(now, stage_free_[0]);
  step.start = at;
  for (std::size_t k = 0; k < num_stages_; ++k) {
    Ticks ticks = replica_.cost->stage(step.batch.load, k);
    if (k == 0) ticks += swap_per_block_ * step.batch.swapped_blocks;
    at = std::max(at, stage_free_[k]);
    if (ticks < 0 || ticks > kNever / 2 - at) {
      throw Error(ErrorCode::out_of_range,
                  fmt::format("the run passes {} s; fewer requests or a higher rate end earlier",
                              kLongestRun_s));
    }
    at += ticks;
    stage_busy_[k] += ticks;
    stage_free_[k] = at;
    if (k + 1 < num_stages_) at += replica_.cost->hop(step.batch.load, k);
  }
  step.end = at;
  step.first = at - step.start;
  step.slope = 0;
  if (skip_ && num_stages_ == 1) plan_stretch(step);
}

// What was held since the last change, which comes now.
void EngineRun::account(Ticks now) {
  if (now <= since_) return;
  const auto spent = static_cast<WideSum>(now - since_);
  since_ = now;
  const BlockManager& kv = scheduler_->kv();
  block_ticks_ += static_cast<WideSum>(kv.num_blocks() - kv.num_free()) * spent;
  slot_ticks_ += static_cast<WideSum>(scheduler_->slots_held()) * spent;
  if (!is_idle()) busy_ += static_cast<Ticks>(spent);
}

void EngineRun::decide_tokens(StepUnderWay& step, std::vector<Ended>& ended) {
  step.generated.assign(step.batch.items.size(), {});
  for (std::size_t i = 0; i < step.batch.items.size(); ++i) {
    const BatchItem& item = step.batch.items[i];
    if (!item.samples) continue;
    Generated& g = step.generated[i];
    Progress& p = progress_of(item);
    if (p.request != item.request) continue;  // ended while this step was decided ahead
    if (item.drafts > 0) {
      g.accepted =
          std::min(item.drafts, accepted_drafts(seed_, item.request, p.output_tokens, rates_));
      ++num_drafts_;
      drafted_ += item.drafts;
      accepted_ += g.accepted;
    }
    g.tokens = std::min(g.accepted + 1, p.most_output - p.output_tokens);
    p.output_tokens += g.tokens;
    output_ += g.tokens;
    g.ended = p.output_tokens >= p.most_output;
    if (!g.ended) continue;
    p.request = -1;
    RequestRecord& record = log_.requests[static_cast<std::size_t>(item.request)];
    const Request& r = traffic_.requests[static_cast<std::size_t>(item.request)];
    g.hold = prefill_only_ && r.output_tokens > 1 && r.max_tokens != 1;
    const Sequence& s = scheduler_->sequence(item.slot);
    record.num_preemptions += s.num_preemptions;
    record.recomputed_tokens += s.recomputed_tokens;
    record.replica = number_;
    record.output_tokens = p.output_tokens;
    record.last_token = step.end;
    ended.push_back({item.request, g.hold, item.slot});
  }
}

// Gaps that are the step itself are counted together; others stand alone.
void EngineRun::note_gaps(const StepUnderWay& step) {
  std::int64_t regular = 0;
  const Ticks first_end = step.end_of(1);
  for (std::size_t i = 0; i < step.batch.items.size(); ++i) {
    const BatchItem& item = step.batch.items[i];
    if (step.generated[i].tokens == 0) continue;
    Ticks& last = progress_of(item).last_token;
    if (last == kNever) {
      log_.requests[static_cast<std::size_t>(item.request)].first_token = first_end;
    } else if (last == step.start) {
      ++regular;
    } else {
      log_.gaps.push_back({first_end - last, 0, 1, 1});
    }
    last = step.end;
  }
  const auto count = static_cast<std::int64_t>(step.batch.items.size());
  if (step.count == 1) {
    if (regular > 0) log_.gaps.push_back({step.end - step.start, 0, 1, regular});
  } else if (regular == count) {
    log_.gaps.push_back({step.first, step.slope, step.count, count});
  } else {
    if (regular > 0) log_.gaps.push_back({step.first, 0, 1, regular});
    log_.gaps.push_back({step.first + step.slope, step.slope, step.count - 1, count});
  }
}

void EngineRun::end_step(Ticks now, std::vector<Ended>& ended) {
  account(now);
  StepUnderWay step = std::move(under_way_.front());
  under_way_.pop_front();
  const std::size_t from = ended.size();
  if (step.is_stretch()) account_stretch(step, step.end);
  scheduled_tokens_ += step.batch.load.tokens - step.batch.load.num_idle;
  for (const PromptChunk& chunk : step.batch.load.chunks) prompt_tokens_ += chunk.tokens;
  ++num_steps_;
  commit_stretch(step);
  decide_tokens(step, ended);
  note_gaps(step);
  scheduler_->complete(step.batch, step.generated);
  if (output_ != output_before_) {
    output_before_ = output_;
    tokens_before_ = scheduled_tokens_;
  }
  num_ended_ += static_cast<std::int64_t>(ended.size() - from);
  if (record_steps_) record(step, ended, from);
  spare_.push_back(std::move(step));
}

bool EngineRun::is_circling() const {
  constexpr std::int64_t kRounds = 4;
  const auto held = static_cast<std::int64_t>(scheduler_->num_unfinished()) * most_tokens_;
  return scheduled_tokens_ - tokens_before_ > kRounds * held && scheduler_->num_unfinished() > 0;
}

void EngineRun::record(const StepUnderWay& step, const std::vector<Ended>& ended,
                       std::size_t from) {
  StepRecord row;
  row.step = num_steps_ - 1;
  row.replica = number_;
  row.start = step.start;
  row.duration = step.end - step.start;
  for (const BatchItem& item : step.batch.items) {
    row.scheduled.push_back({item.request, item.tokens});
  }
  const auto by_request = [](const ScheduledTokens& a, const ScheduledTokens& b) {
    return a.request < b.request;
  };
  std::sort(row.scheduled.begin(), row.scheduled.end(), by_request);
  row.preempted = step.batch.preempted;
  std::sort(row.preempted.begin(), row.preempted.end());
  for (std::size_t i = from; i < ended.size(); ++i) row.finished.push_back(ended[i].request);
  std::sort(row.finished.begin(), row.finished.end());
  row.free_blocks = scheduler_->kv().num_free();
  row.num_waiting = step.num_waiting;
  row.num_running = static_cast<std::int64_t>(step.batch.items.size());
  row.limit = step.batch.limit;
  log_.steps.push_back(std::move(row));
}

void EngineRun::let_go(Slot slot, Ticks now) {
  account(now);
  scheduler_->let_go(slot);
}

ReplicaLoad EngineRun::load(Ticks now, bool blocks, bool is_over) const {
  ReplicaLoad load;
  load.num_waiting = static_cast<std::int64_t>(scheduler_->num_waiting());
  load.num_running = static_cast<std::int64_t>(scheduler_->running().size());
  load.pending_tokens = scheduler_->pending_tokens();
  load.kv_blocks = scheduler_->kv().num_blocks();
  load.block_size = scheduler_->kv().block_size();
  load.num_seats = replica_.engine.max_num_seqs;
  if (blocks) load.used_blocks = load.kv_blocks - scheduler_->kv().num_free();
  if (under_way_.empty() || !under_way_.front().is_stretch()) return load;
  const StepUnderWay& step = under_way_.front();
  // Between two of its steps each request has a token that is to be computed.
  if (is_over && !scheduler_->decides_ahead() && step.ends_at(now)) {
    load.pending_tokens += std::ssize(step.batch.items);
  }
  if (blocks) {
    for_each_taken(step, [&](Ticks time) { load.used_blocks += time < now ? 1 : 0; });
  }
  return load;
}

std::int64_t EngineRun::output_tokens(Ticks now) const {
  std::int64_t tokens = output_;
  if (!under_way_.empty() && under_way_.front().count > 1) {
    const StepUnderWay& step = under_way_.front();
    const std::int64_t reached = step.steps_until(now);
    const std::int64_t ended = step.end_of(reached) <= now ? reached : reached - 1;
    tokens += ended * std::ssize(step.batch.items);
  }
  return tokens;
}

std::int64_t EngineRun::cached_tokens(std::int64_t request) const {
  Sequence s = sequence_of(request);
  s.content.own = static_cast<std::uint64_t>(request);
  s.content.prompt_tokens = s.prompt_tokens;
  const BlockManager& kv = scheduler_->kv();
  return kv.find_prefix(s.content, s.prompt_tokens - 1) * kv.block_size();
}

void EngineRun::close(Ticks end) {
  account(end);
  note_limit(limit_, end);
  for (const Progress& p : progress_) {
    if (p.request < 0) continue;
    RequestRecord& cut_off = log_.requests[static_cast<std::size_t>(p.request)];
    cut_off.output_tokens = p.output_tokens;
    cut_off.last_token = p.last_token;
  }
  scheduler_->for_each_waiting([&](const Sequence& s) {  // those that were never in a step
    RequestRecord& waiting = log_.requests[static_cast<std::size_t>(s.request)];
    if (waiting.first_scheduled != kNever) return;
    for (std::size_t i = 0; i < kNumLimits; ++i) waiting.waited[i] += limit_ticks_[i];
  });
  ReplicaRecord record;
  const SchedulerCounts& counts = scheduler_->counts();
  record.name = replica_.name;
  record.num_steps = num_steps_;
  record.num_requests = num_ended_;
  record.num_preemptions = counts.num_preemptions;
  record.num_swaps = counts.num_swaps;
  record.scheduled_tokens = scheduled_tokens_;
  record.prompt_tokens = prompt_tokens_;
  record.recomputed_tokens = counts.recomputed_tokens;
  record.prefix_queries = counts.prefix_queries;
  record.prefix_hits = counts.prefix_hits;
  record.drafted_tokens = drafted_;
  record.accepted_tokens = accepted_;
  record.num_drafts = num_drafts_;
  record.kv_blocks = scheduler_->kv().num_blocks();
  record.most_blocks_used = most_blocks_;
  record.busy = busy_;
  record.block_ticks = as_double(block_ticks_);
  record.slot_ticks = as_double(slot_ticks_);
  record.reserved_slot_ticks =
      as_double(block_ticks_) * static_cast<double>(scheduler_->kv().block_size());
  record.unusable_slot_ticks = as_double(unusable_ticks_);
  record.refused_ticks = static_cast<double>(refused_ticks_);
  record.stage_busy = stage_busy_;
  record.usd_per_h = replica_.usd_per_h;
  record.idle_w = replica_.idle_w;
  record.busy_w = replica_.busy_w;
  log_.replicas.push_back(std::move(record));
}

}  // namespace tessera::serving
