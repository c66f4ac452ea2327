// vLLM's V1 scheduler (v1/core/sched/scheduler.py of 0.24): one budget of tokens, and no phases.
// Every request catches up from what is computed to what is known; running ones first, in order of
// admission, then the queue. Prompts may be made to wait while others decode, which vLLM does not:
// TensorRT-LLM does (_torch/pyexecutor, _waiting_requests and _balance_adp_requests of 1.1).

#include <algorithm>
#include <vector>

#include "policies.h"

namespace tessera::serving {
namespace {

class VllmV1 final : public Scheduler {
 public:
  using Scheduler::Scheduler;

  std::string why_never(std::int64_t prompt_tokens, std::int64_t max_tokens) const override {
    const std::string why = chunks() ? "" : why_no_step(prompt_tokens, max_tokens);
    return why.empty() ? Scheduler::why_never(prompt_tokens, max_tokens) : why;
  }

  // All decode again, in the same order and with a budget that sufficed; the queue is served after
  // them and goes on being refused.
  std::int64_t repeats(const Batch& batch, std::int64_t most) const override {
    if (may_wait()) return 0;  // each step counts
    return is_all_decodes(batch) && queue_stays(batch) ? decode_repeats(batch, most) : 0;
  }

 private:
  bool may_wait() const { return options_.prefill_wait_steps.has_value(); }
  bool decodes_in_step() const override { return !may_wait(); }
  bool chunks() const { return options_.enable_chunked_prefill.value_or(true); }

  void schedule(Ticks, Batch& batch) override {
    std::int64_t budget = options_.max_num_batched_tokens;
    schedule_running(batch, budget);
    if (!batch.preempted.empty()) return;
    if (!prompts_wait(budget)) return schedule_waiting(batch, budget);
    if (!waiting_.empty()) stop(batch, Limit::policy);
  }

  // With `budget` tokens of the step left.
  bool prompts_wait(std::int64_t budget) {
    if (!may_wait()) return false;
    return options_.prefill_wait_parts ? wait_for_parts() : wait_for_tokens(budget);
  }

  bool wait_for_tokens(std::int64_t budget) {
    if (waiting_.empty() || running_.empty()) return false;
    std::int64_t tokens = options_.max_num_batched_tokens - budget;
    for_each_waiting([&](const Sequence& s) {
      const std::int64_t prompt = uncached(s, find_prefix(s));
      if (prompt > budget) return;
      tokens += prompt;
      budget -= prompt;
    });
    return waits(tokens < *options_.prefill_wait_tokens);
  }

  // The steps are counted also while nobody waits, as there.
  bool wait_for_parts() {
    const auto parts = static_cast<std::size_t>(*options_.prefill_wait_parts);
    std::vector<bool> waits_in(parts), runs_in(parts);
    waiting_.for_each([&](Slot slot) { waits_in[part(slot)] = true; });
    for (const Slot slot : running_) runs_in[part(slot)] = true;
    const auto all = [](const std::vector<bool>& of) {
      return std::find(of.begin(), of.end(), false) == of.end();
    };
    if (has_seat() && all(waits_in)) {
      waited_ = 0;
      return false;
    }
    return waits(all(runs_in));
  }

  bool waits(bool would_wait) {
    const bool goes_on = would_wait && waited_ < *options_.prefill_wait_steps;
    waited_ = goes_on ? waited_ + 1 : 0;
    return goes_on;
  }

  // Of the part that has the fewest, the first of several.
  void added(Slot slot) override {
    if (!options_.prefill_wait_parts) return;
    std::vector<std::int64_t> held(static_cast<std::size_t>(*options_.prefill_wait_parts));
    const auto count = [&](Slot other) {
      if (other != slot) ++held[part(other)];
    };
    waiting_.for_each(count);
    std::for_each(running_.begin(), running_.end(), count);
    const auto index = static_cast<std::size_t>(slot);
    if (part_.size() <= index) part_.resize(index + 1);
    part_[index] =
        static_cast<std::size_t>(std::min_element(held.begin(), held.end()) - held.begin());
  }
  // Of one that came with its KV cache nobody asked.
  std::size_t part(Slot slot) const {
    const auto index = static_cast<std::size_t>(slot);
    return index < part_.size() ? part_[index] : 0;
  }

  std::int64_t capped(std::int64_t tokens, std::int64_t budget) const {
    const std::int64_t threshold = options_.long_prefill_token_threshold;
    if (threshold > 0) tokens = std::min(tokens, threshold);
    return std::min(tokens, budget);
  }

  void schedule_running(Batch& batch, std::int64_t& budget) {
    decode_in_step(budget);
    for (std::size_t i = 0; i < running_.size() && budget > 0; ++i) {
      const Slot slot = running_[i];
      fetch_ahead(running_, i, [](Slot later) { return later; });
      Sequence& s = at(slot);
      const std::int64_t tokens = std::min(capped(left(s), budget), next_tokens(s));
      if (tokens <= 0) continue;  // its last step is still under way
      bool preempted_itself = false;
      while (!extend(s, room_until(s, s.computed + tokens))) {
        const Slot victim = choose_victim();
        preempted_itself = victim == slot;
        take_from(batch, victim, i, budget);
        if (preempted_itself) break;
      }
      if (preempted_itself) break;
      joins_step(s, tokens) ? join_step(batch, slot) : put(batch, slot, tokens);
      budget -= tokens;
    }
    join_steps(batch);
  }

  Slot choose_victim() const {
    if (options_.policy == QueuePolicy::fcfs) return running_.back();
    return *std::max_element(running_.begin(), running_.end(), [&](Slot a, Slot b) {
      const Sequence &x = sequence(a), &y = sequence(b);
      return std::pair(x.priority, x.arrival) < std::pair(y.priority, y.arrival);
    });
  }

  // One that is in the step already leaves it. (Of one that was passed over vLLM does not lower the
  // position, so that the request after this one is passed over too; and so it is here.)
  void take_from(Batch& batch, Slot victim, std::size_t& i, std::int64_t& budget) {
    const auto item =
        std::find_if(batch.items.rbegin(), batch.items.rend(),
                     [&](const BatchItem& scheduled) { return scheduled.slot == victim; });
    if (item != batch.items.rend()) {
      --i;
      budget += item->tokens;
      take_back(batch, static_cast<std::size_t>(batch.items.rend() - item) - 1);
    }
    preempt(batch, victim);
  }

  void schedule_waiting(Batch& batch, std::int64_t& budget) {
    while (!waiting_.empty()) {
      if (budget <= 0) return stop(batch, Limit::tokens);
      if (!has_seat()) return stop(batch, Limit::seats);
      const Slot slot = waiting_.front();
      Sequence& s = at(slot);
      if (s.is_under_way()) return;  // preempted since; its token is still to come
      const std::int64_t found = find_prefix(s);
      std::int64_t tokens = uncached(s, found);
      const std::int64_t threshold = options_.long_prefill_token_threshold;
      if (threshold > 0) tokens = std::min(tokens, threshold);
      if (!chunks() && tokens > budget) return stop(batch, Limit::tokens);
      tokens = std::min(tokens, budget);
      // The whole request has to fit, not only its first piece.
      const std::int64_t end = room_until(s, s.known - uncached(s, found) + tokens);
      if (!fits_whole(s, found) || !admit(batch, slot, end, found)) {
        return stop(batch, Limit::blocks);
      }
      put(batch, slot, tokens);
      budget -= tokens;
    }
  }

  static void stop(Batch& batch, Limit limit) { batch.limit = limit; }

  std::int64_t waited_ = 0;        ///< steps that prompts have been held back
  std::vector<std::size_t> part_;  ///< [slot] of the attention, that has its request
};

}  // namespace

std::unique_ptr<Scheduler> make_vllm_v1(const EngineOptions& options,
                                        const BlockManager::Options& kv) {
  return std::make_unique<VllmV1>(options, kv);
}

}  // namespace tessera::serving
