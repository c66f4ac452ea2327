#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tessera/serving/scheduler.h"
#include "tessera/serving/stretches.h"

namespace tessera::serving::driven {

/// A request with the length that it really generates.
struct DrivenRequest {
  Ticks arrival = 0;  ///< in steps
  std::int64_t prompt_tokens = 1, output_tokens = 1;
  std::int64_t max_tokens = 0;  ///< 0: output_tokens
  std::int32_t priority = 0;
  std::int64_t prefix_group = -1, prefix_tokens = 0;
  std::int64_t stream = -1;     ///< of its other tokens, as traffic.h has it
  std::int64_t cancelled = -1;  ///< before this step, unless it has ended by then; -1: never
};

/// What became of it. A token's place is its position in the request.
struct DrivenOutcome {
  std::int64_t generated = 0;
  std::int64_t tokens = 0;   ///< that steps computed for it
  std::int64_t reached = 0;  ///< places from the start that were computed or found, at most
  std::int64_t again = 0;    ///< places computed though they had been reached
  std::int64_t found = 0;    ///< places that were not computed when they were reached
  std::int64_t wasted = 0;   ///< drafts refused, or accepted beyond its end
  std::int64_t cached = 0, recomputed = 0;  ///< as the scheduler counts them
  std::int64_t num_preemptions = 0;
  std::int64_t first_step = -1, last_step = -1;
  bool was_cancelled = false;
  friend bool operator==(const DrivenOutcome&, const DrivenOutcome&) = default;
};

/// Runs a scheduler in steps of one unit of time, in which every request that samples gets a token:
/// what an executor does, without times and models.
class Driver {
 public:
  Driver(std::unique_ptr<Scheduler> scheduler, std::vector<DrivenRequest> requests)
      : scheduler_(std::move(scheduler)),
        stretches_(*scheduler_),
        requests_(std::move(requests)),
        outcomes_(requests_.size()),
        slots_(requests_.size(), -1) {
    for (std::size_t i = 0; i < requests_.size(); ++i) order_.push_back(i);
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return requests_[a].arrival < requests_[b].arrival;
    });
  }

  bool skips = false;      ///< takes stretches of decodes at once
  std::int64_t depth = 1;  ///< steps under way at a time
  /// An empty step takes a place among those under way too, as in vLLM's queue of batches, and the
  /// oldest is waited for only where the queue is full or nothing else is to be done.
  bool queues_empty_steps = false;
  /// Drafts that the target model accepts; by default any rule that looks at nothing but the
  /// request and how far it is.
  std::function<std::int64_t(const BatchItem&)> accepts;
  /// Drafts for its next step; by default as many as the options say.
  std::function<std::int64_t(const BatchItem&)> drafts;
  /// Looks at each batch that was decided.
  std::function<void(const Batch&)> on_decided;
  /// The token of a request at a position: then content is found by these.
  std::function<Token(std::size_t, std::int64_t)> token_at;
  std::int64_t num_skipped = 0;  ///< steps that were not decided one by one

  Scheduler& scheduler() { return *scheduler_; }
  std::int64_t step() const { return step_; }
  const DrivenOutcome& outcome(std::size_t request) const { return outcomes_[request]; }
  const std::vector<DrivenOutcome>& outcomes() const { return outcomes_; }
  std::int64_t num_ended() const { return num_ended_; }
  /// Requests that were never added.
  const std::vector<std::int64_t>& never() const { return never_; }
  bool done() const {
    return next_ == order_.size() && scheduler_->num_unfinished() == 0 && num_under_way_ == 0;
  }
  /// The batch that was decided last.
  const Batch& batch() const { return last_; }

  /// Decides a step, and completes one where as many are under way as may be, or nothing came of
  /// it. The record's scheduled requests are in order of their numbers.
  StepRecord advance() {
    arrive();
    if (queues_empty_steps) return advance_queue();
    Batch batch;
    scheduler_->decide(step_, batch);
    scheduler_->check(batch);
    StepRecord record;
    record.step = step_;
    note(batch, record);
    if (skips && depth == 1) skip(batch);
    last_ = batch;
    const bool is_empty = batch.items.empty();
    if (!is_empty) push(std::move(batch));
    if (std::ssize(under_way_) >= depth || (is_empty && !under_way_.empty())) complete(record);
    record.free_blocks = scheduler_->kv().num_free();
    ++step_;
    if (is_empty && scheduler_->num_unfinished() == 0 && next_ < order_.size()) {
      step_ = std::max(step_, requests_[order_[next_]].arrival);
    }
    return record;
  }

  /// To the end. @throws std::runtime_error after `most` steps
  void run(std::int64_t most = 100000) {
    while (!done()) {
      advance();
      if (step_ > most) throw std::runtime_error("the run has no end");
    }
  }

 private:
  void push(Batch batch) {
    num_under_way_ += batch.items.empty() ? 0 : 1;
    under_way_.push_back(std::move(batch));
  }

  // One call of vLLM's step_with_batch_queue.
  StepRecord advance_queue() {
    StepRecord record;
    record.step = step_;
    const bool decides = scheduler_->num_unfinished() > 0 || has_ended_;
    bool is_empty = true;
    if (decides) {
      Batch batch;
      scheduler_->decide(step_, batch);
      scheduler_->check(batch);
      note(batch, record);
      is_empty = batch.items.empty();
      has_ended_ = false;
      push(std::move(batch));
    }
    const bool more = decides && std::ssize(under_way_) < depth &&
                      (!is_empty || scheduler_->num_unfinished() > 0);
    if (!more && !under_way_.empty()) {
      complete(record);
      has_ended_ = has_ended_ || !record.finished.empty();
    }
    record.free_blocks = scheduler_->kv().num_free();
    ++step_;
    return record;
  }

  DrivenOutcome& of(const BatchItem& item) {
    return outcomes_[static_cast<std::size_t>(item.request)];
  }
  const DrivenRequest& request(const BatchItem& item) const {
    return requests_[static_cast<std::size_t>(item.request)];
  }

  void cancel() {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i].cancelled != step_ || slots_[i] < 0) continue;
      scheduler_->cancel(slots_[i]);
      slots_[i] = -1;
      outcomes_[i].was_cancelled = has_ended_ = true;
      ++num_ended_;
    }
  }

  void arrive() {
    while (next_ < order_.size() && requests_[order_[next_]].arrival <= step_) {
      const std::size_t i = order_[next_++];
      const DrivenRequest& r = requests_[i];
      Sequence s;
      s.request = static_cast<std::int64_t>(i);
      s.arrival = r.arrival;
      s.priority = r.priority;
      s.prompt_tokens = r.prompt_tokens;
      s.max_tokens = r.max_tokens > 0 ? r.max_tokens : r.output_tokens;
      s.content.prefix_group = r.prefix_group;
      s.content.prefix_tokens = r.prefix_tokens;
      s.content.stream = r.stream;
      s.content.tokens = prompt_of(i);
      if (!scheduler_->why_never(s.prompt_tokens, s.max_tokens).empty()) {
        never_.push_back(s.request);
      } else {
        slots_[i] = scheduler_->add(std::move(s));
      }
    }
    cancel();
  }

  std::shared_ptr<TokenChain> prompt_of(std::size_t request) {
    if (!token_at) return nullptr;
    auto chain = std::make_shared<TokenChain>(scheduler_->kv().block_size());
    for (std::int64_t p = 0; p < requests_[request].prompt_tokens; ++p) {
      const Token token = token_at(request, p);
      chain->append({&token, 1});
    }
    return chain;
  }

  void note(const Batch& batch, StepRecord& record) {
    if (on_decided) on_decided(batch);
    for (const BatchItem& item : batch.items) {
      record.scheduled.push_back({item.request, item.tokens});
      DrivenOutcome& o = of(item);
      const std::int64_t end = item.context + item.tokens - item.drafts;
      o.found += std::max<std::int64_t>(0, item.context - o.reached);
      o.reached = std::max(o.reached, item.context);
      o.again += std::min(o.reached, end) - item.context;
      o.reached = std::max(o.reached, end);
      o.tokens += item.tokens;
      if (o.first_step < 0) o.first_step = step_;
    }
    std::sort(record.scheduled.begin(), record.scheduled.end(),
              [](const auto& a, const auto& b) { return a.request < b.request; });
    record.preempted = batch.preempted;
    std::sort(record.preempted.begin(), record.preempted.end());
    record.limit = batch.limit;
    record.num_running = scheduler_->num_running();
    record.num_waiting = static_cast<std::int64_t>(scheduler_->num_waiting());
  }

  void skip(Batch& batch) {
    std::int64_t most = next_ < order_.size() ? requests_[order_[next_]].arrival - step_ - 1 : 1000;
    for (const DrivenRequest& r : requests_) {
      if (r.cancelled > step_) most = std::min(most, r.cancelled - step_ - 1);
    }
    if (batch.items.empty()) return;
    for (const BatchItem& item : batch.items) {
      if (item.tokens != 1 || item.context < request(item).prompt_tokens) return;
      most = std::min(most, request(item).output_tokens - of(item).generated - 1);
    }
    const std::int64_t steps = most > 0 ? stretches_.repeats(batch, most) : 0;
    if (steps < 0 || steps > most) throw std::runtime_error("more steps than were asked for");
    stretches_.repeat(batch, steps);
    scheduler_->check(batch);
    for (const BatchItem& item : batch.items) {
      of(item).generated += steps;
      of(item).tokens += steps;
      of(item).reached += steps;
    }
    num_skipped += steps;
    step_ += steps;
  }

  std::int64_t accepted(const BatchItem& item, std::int64_t generated) const {
    if (accepts) return accepts(item);
    return (item.request * 7 + generated * 3) % (item.drafts + 1);
  }

  void complete(StepRecord& record) {
    const Batch batch = std::move(under_way_.front());
    under_way_.pop_front();
    num_under_way_ -= batch.items.empty() ? 0 : 1;
    std::vector<Generated> generated(batch.items.size());
    std::vector<std::vector<Token>> tokens(batch.items.size());
    for (std::size_t i = 0; i < batch.items.size(); ++i) {
      const BatchItem& item = batch.items[i];
      if (!item.samples) continue;
      DrivenOutcome& o = of(item);
      if (o.generated == request(item).output_tokens || o.was_cancelled) continue;  // meanwhile
      Generated& g = generated[i];
      g.accepted = accepted(item, o.generated);
      g.tokens = std::min(g.accepted + 1, request(item).output_tokens - o.generated);
      o.wasted += item.drafts - (g.tokens - 1);
      o.reached += g.tokens - 1;
      o.generated += g.tokens;
      g.ended = o.generated == request(item).output_tokens;
      if (drafts) g.next_drafts = drafts(item);
      for (std::int64_t k = g.tokens; token_at && k > 0; --k) {
        const std::int64_t end = request(item).prompt_tokens + o.generated;
        tokens[i].push_back(token_at(static_cast<std::size_t>(item.request), end - k));
      }
      g.token_ids = tokens[i];
      if (!g.ended) continue;
      slots_[static_cast<std::size_t>(item.request)] = -1;
      const Sequence& s = scheduler_->sequence(item.slot);
      o.cached = s.cached_tokens;
      o.recomputed = s.recomputed_tokens;
      o.num_preemptions = s.num_preemptions;
      o.last_step = step_;
      record.finished.push_back(item.request);
      ++num_ended_;
    }
    std::sort(record.finished.begin(), record.finished.end());
    scheduler_->complete(batch, generated);
  }

  std::unique_ptr<Scheduler> scheduler_;
  Stretches stretches_;
  std::vector<DrivenRequest> requests_;
  std::vector<DrivenOutcome> outcomes_;
  std::vector<Slot> slots_;  ///< by request; -1: not there
  std::vector<std::size_t> order_;
  std::size_t next_ = 0;
  std::int64_t step_ = 0, num_ended_ = 0;
  std::deque<Batch> under_way_;
  std::int64_t num_under_way_ = 0;  ///< of them, that compute something
  bool has_ended_ = false;          ///< a request since the last decision
  std::vector<std::int64_t> never_;
  Batch last_;
};

}  // namespace tessera::serving::driven
