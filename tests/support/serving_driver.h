#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tessera/serving/scheduler.h"

namespace tessera::serving::testing {

/// A request with the length that it really generates.
struct DrivenRequest {
  Ticks arrival = 0;  ///< in steps
  std::int64_t prompt_tokens = 1, output_tokens = 1;
  std::int64_t max_tokens = 0;  ///< 0: output_tokens
  std::int32_t priority = 0;
  std::int64_t prefix_group = -1, prefix_tokens = 0;
};

/// Runs a scheduler in steps of one unit of time, in which every request that samples gets a token:
/// what an executor does, without times and models.
class Driver {
 public:
  Driver(std::unique_ptr<Scheduler> scheduler, std::vector<DrivenRequest> requests)
      : scheduler_(std::move(scheduler)), requests_(std::move(requests)) {
    for (std::size_t i = 0; i < requests_.size(); ++i) order_.push_back(i);
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return requests_[a].arrival < requests_[b].arrival;
    });
    generated_.resize(requests_.size());
    computed_.resize(requests_.size());
    cached_.resize(requests_.size());
  }

  Scheduler& scheduler() { return *scheduler_; }
  std::int64_t step() const { return step_; }
  std::int64_t generated(std::size_t request) const { return generated_[request]; }
  /// Tokens that steps computed for it.
  std::int64_t computed(std::size_t request) const { return computed_[request]; }
  std::int64_t cached(std::size_t request) const { return cached_[request]; }
  std::int64_t num_ended() const { return num_ended_; }
  const std::vector<std::int64_t>& never() const { return never_; }
  bool done() const { return next_ == order_.size() && scheduler_->num_unfinished() == 0; }

  bool skips = false;            ///< takes stretches of decodes at once
  std::int64_t depth = 1;        ///< steps under way at a time
  std::int64_t num_skipped = 0;  ///< steps that were not decided one by one
  bool checks = true;

  /// Decides a step, and completes one where as many are under way as may be, or nothing came of
  /// it. The record's scheduled requests are in order of their numbers.
  StepRecord advance() {
    arrive();
    Batch batch;
    scheduler_->decide(step_, batch);
    if (checks) scheduler_->check(batch);
    StepRecord record;
    record.step = step_;
    for (const BatchItem& item : batch.items) {
      record.scheduled.push_back({item.request, item.tokens});
      computed_[static_cast<std::size_t>(item.request)] += item.tokens;
    }
    std::sort(record.scheduled.begin(), record.scheduled.end(),
              [](const auto& a, const auto& b) { return a.request < b.request; });
    record.preempted = batch.preempted;
    std::sort(record.preempted.begin(), record.preempted.end());
    record.limit = batch.limit;
    rejected_.insert(rejected_.end(), batch.rejected.begin(), batch.rejected.end());
    for (const Slot slot : batch.admitted) {
      const Sequence& s = scheduler_->sequence(slot);
      cached_[static_cast<std::size_t>(s.request)] = s.cached_tokens;
    }
    record.num_running = static_cast<std::int64_t>(scheduler_->running().size());
    record.num_waiting = static_cast<std::int64_t>(scheduler_->num_waiting());
    if (skips) skip(batch);
    decide_again_ = batch.decide_again;
    const bool empty = batch.items.empty();
    if (!empty) under_way_.push_back(std::move(batch));
    if (static_cast<std::int64_t>(under_way_.size()) >= depth || (empty && !under_way_.empty())) {
      complete(record);
    }
    record.free_blocks = scheduler_->kv().num_free();
    ++step_;
    if (empty && scheduler_->num_unfinished() == 0 && next_ < order_.size()) {
      step_ = std::max(step_, requests_[order_[next_]].arrival);
    }
    return record;
  }

  /// To the end. @throws std::runtime_error after `most` steps
  void run(std::int64_t most = 200000) {
    while (!done() || !under_way_.empty()) {
      advance();
      if (step_ > most) throw std::runtime_error("the run has no end");
    }
  }

 private:
  void arrive() {
    while (next_ < order_.size() && requests_[order_[next_]].arrival <= step_) {
      const std::size_t i = order_[next_++];
      const DrivenRequest& r = requests_[i];
      const std::int64_t max_tokens = r.max_tokens > 0 ? r.max_tokens : r.output_tokens;
      if (!scheduler_->why_never(r.prompt_tokens, max_tokens).empty()) {
        never_.push_back(static_cast<std::int64_t>(i));
        continue;
      }
      Sequence s;
      s.request = static_cast<std::int64_t>(i);
      s.arrival = r.arrival;
      s.priority = r.priority;
      s.prompt_tokens = r.prompt_tokens;
      s.max_tokens = max_tokens;
      s.content.prefix_group = r.prefix_group;
      s.content.prefix_tokens = r.prefix_tokens;
      scheduler_->add(std::move(s));
    }
  }

  void skip(Batch& batch) {
    std::int64_t most = next_ < order_.size() ? requests_[order_[next_]].arrival - step_ - 1 : 1000;
    if (batch.items.empty() || batch.items.size() != scheduler_->running().size()) return;
    for (const BatchItem& item : batch.items) {
      const auto r = static_cast<std::size_t>(item.request);
      if (item.tokens != 1 || !item.samples) return;
      if (scheduler_->sequence(item.slot).known <= requests_[r].prompt_tokens) return;
      most = std::min(most, requests_[r].output_tokens - generated_[r] - 1);
    }
    const std::int64_t steps = most > 0 ? scheduler_->repeats(batch, most) : 0;
    if (steps < 0 || steps > most) throw std::runtime_error("more steps than were asked for");
    scheduler_->repeat(batch, steps);
    for (const BatchItem& item : batch.items) {
      generated_[static_cast<std::size_t>(item.request)] += steps;
      computed_[static_cast<std::size_t>(item.request)] += steps;
    }
    num_skipped += steps;
    step_ += steps;
  }

  void complete(StepRecord& record) {
    const Batch batch = std::move(under_way_.front());
    under_way_.pop_front();
    std::vector<Generated> generated(batch.items.size());
    for (std::size_t i = 0; i < batch.items.size(); ++i) {
      const BatchItem& item = batch.items[i];
      if (!item.samples) continue;
      const auto r = static_cast<std::size_t>(item.request);
      generated[i].tokens = 1;
      generated[i].ended = ++generated_[r] == requests_[r].output_tokens;
      if (!generated[i].ended) continue;
      record.finished.push_back(item.request);
      ++num_ended_;
    }
    std::sort(record.finished.begin(), record.finished.end());
    scheduler_->complete(batch, generated);
  }

  std::unique_ptr<Scheduler> scheduler_;
  std::vector<DrivenRequest> requests_;
  std::vector<std::size_t> order_;
  std::size_t next_ = 0;
  std::int64_t step_ = 0, num_ended_ = 0;
  Ticks decide_again_ = kNever;
  std::deque<Batch> under_way_;
  std::vector<std::int64_t> generated_, computed_, cached_, never_, rejected_;
};

}  // namespace tessera::serving::testing
