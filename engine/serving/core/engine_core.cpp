#include "tessera/serving/engine_core.h"

#include <algorithm>
#include <utility>

namespace tessera::serving {

EngineCore::EngineCore(std::unique_ptr<Scheduler> scheduler, Ledger ledger, const Options& options)
    : scheduler_(std::move(scheduler)),
      ledger_(std::move(ledger)),
      most_under_way_(scheduler_->most_under_way(options.num_stages)),
      with_tables_(options.with_tables) {}

std::vector<Ended> EngineCore::take_ends(Ticks now, Executor& executor) {
  std::vector<Ended> ended;
  account(now);
  while (const auto done = executor.finished()) {
    const auto result_of = [&](std::size_t i) { return done->generated[i]; };
    if (on_step) on_step(under_way(0), done->times);
    finish(done->times, result_of, ended);
    has_ended_ = true;
  }
  return ended;
}

void EngineCore::decide_all(Ticks now, Executor& executor) {
  const bool news = std::exchange(has_news_, false) && has_room_for_news();
  if (!std::exchange(has_ended_, false) && !news && now < decide_again()) return;
  while (has_room()) {
    const Work* work = decide(now);
    if (work == nullptr) break;
    executor.launch(*work);
  }
}

void EngineCore::note(std::int64_t request, Slot slot) {
  slots_[request] = slot;
  ledger_.note_slot(request, slot);
}

bool EngineCore::submit(Sequence s, Ticks now) {
  if (!scheduler_->why_never(s.prompt_tokens, s.max_tokens).empty()) {
    ledger_.rejected(s.request, now);
    return false;
  }
  most_tokens_ = std::max(most_tokens_, s.most_tokens());
  ledger_.comes(*scheduler_, s.request, now);
  const std::int64_t request = s.request;
  note(request, scheduler_->add(std::move(s)));
  has_news_ = true;
  return true;
}

bool EngineCore::begin_loading(Sequence s, Ticks now) {
  account(now);
  most_tokens_ = std::max(most_tokens_, s.most_tokens());
  const std::int64_t request = s.request;
  Slot slot = 0;
  if (!scheduler_->add_loading(std::move(s), slot)) return false;
  note(request, slot);
  ++num_loading_;
  ledger_.took_blocks(*scheduler_);
  return true;
}

void EngineCore::finish_loading(std::int64_t request) {
  const auto it = slots_.find(request);
  if (it == slots_.end()) return;  // cancelled on the way
  scheduler_->loaded(it->second);
  --num_loading_;
  has_news_ = true;
}

bool EngineCore::cancel(std::int64_t request, Ticks now) {
  if (!withdraw(request, now)) return false;
  ledger_.cancelled(request, now);
  return true;
}

bool EngineCore::withdraw(std::int64_t request, Ticks now) {
  const auto it = slots_.find(request);
  if (it == slots_.end()) return false;
  account(now);
  const Slot slot = it->second;
  const SequenceState state = scheduler_->sequence(slot).state;
  if (state == SequenceState::loading) --num_loading_;
  leave_step(slot);
  ledger_.withdrawn(*scheduler_, slot, now);
  scheduler_->cancel(slot);
  slots_.erase(it);
  has_news_ = true;
  return true;
}

std::vector<std::int64_t> EngineCore::requests() const {
  std::vector<std::int64_t> all;
  for (const auto& [request, slot] : slots_) all.push_back(request);
  std::sort(all.begin(), all.end());
  return all;
}

void EngineCore::let_go(std::int64_t request, Ticks now) {
  const auto it = slots_.find(request);
  account(now);
  scheduler_->let_go(it->second);
  slots_.erase(it);
  has_news_ = true;
}

std::unique_ptr<Work> EngineCore::spare() {
  if (spare_.empty()) return std::make_unique<Work>();
  std::unique_ptr<Work> work = std::move(spare_.back());
  spare_.pop_back();
  return work;
}

Work* EngineCore::decide(Ticks now) {
  account(now);
  std::unique_ptr<Work> decided = spare();
  Work& work = *decided;
  Batch& batch = work.batch;
  scheduler_->decide(now, batch);
  note_left();
  if (now >= decide_again_) ledger_.retries(now);
  ledger_.decided(*scheduler_, batch, now);
  decide_again_ = kNever;
  const bool nothing = batch.items.empty() && batch.lockstep < 0 && batch.moves.empty() &&
                       (batch.preempted.empty() || !is_idle());
  if (nothing) {
    decide_again_ = batch.decide_again;
    spare_.push_back(std::move(decided));
    return nullptr;
  }
  work.step = next_step_++;
  work.num_waiting = static_cast<std::int64_t>(scheduler_->num_waiting());
  work.tables.clear();
  for (std::size_t i = 0; with_tables_ && i < batch.items.size(); ++i) {
    work.tables.push_back(scheduler_->kv().names(scheduler_->sequence(batch.items[i].slot).kv));
  }
  ledger_.took_blocks(*scheduler_);
  under_way_.push_back(std::move(decided));
  return &work;
}

void EngineCore::end_step(std::unique_ptr<Work> work, const StepTimes& times,
                          std::span<const Ended> ended) {
  std::vector<std::int64_t> finished;
  for (const Ended& e : ended) {
    finished.push_back(e.request);
    if (!e.hold) slots_.erase(e.request);
  }
  ledger_.done(work->batch, times);
  ledger_.record_step(*scheduler_, work->batch, std::move(finished), times, work->num_waiting);
  spare_.push_back(std::move(work));
}

void EngineCore::leave_step(Slot slot) {
  scheduler_->leave_step(slot);
  note_left();
}

void EngineCore::leave_steps() {
  scheduler_->leave_steps();
  note_left();
}

void EngineCore::note_left() {
  for (const auto& [slot, steps] : scheduler_->take_left()) ledger_.left_step(slot, steps);
}

void EngineCore::lose_steps(Ticks now) {
  account(now);
  scheduler_->forget_all();
  under_way_.clear();
  decide_again_ = now;
}

bool EngineCore::is_circling() const {
  constexpr std::int64_t kRounds = 4;
  const auto held = static_cast<std::int64_t>(scheduler_->num_unfinished()) * most_tokens_;
  return ledger_.tokens_in_vain() > kRounds * held && scheduler_->num_unfinished() > 0;
}

}  // namespace tessera::serving
