// vLLM's first scheduler (vllm/core/scheduler.py up to 0.9): prompts go before decodes, whole, in
// steps of their own. With enable_chunked_prefill its other variant: decodes, then pieces of
// prompts, in one budget. Where blocks are short it preempts from the end, by computing again or by
// moving to host memory.
//
// Two differences: a step that preempts admits nobody (vLLM's chunked variant may admit others),
// and where host memory is short it computes again (vLLM gives up).

#include <algorithm>
#include <utility>

#include "policies.h"

namespace tessera::serving {
namespace {

class VllmV0 final : public Scheduler {
 public:
  VllmV0(const EngineOptions& options, const BlockManager::Options& kv)
      : Scheduler(options, kv), chunks_(options.enable_chunked_prefill.value_or(false)) {}

  std::string note() const override {
    const bool swaps = options_.preemption_mode == PreemptionMode::swap;
    return swaps && kv_.num_free_host() == 0
               ? "vllm_v0 computes what it preempts once more: it has "
                 "no host memory to swap to, or "
                 "does not know what a token takes"
               : "";
  }

  std::string why_never(std::int64_t prompt_tokens, std::int64_t max_tokens) const override {
    const std::string why = chunks_ ? "" : why_no_step(prompt_tokens, max_tokens);
    return why.empty() ? why_no_room(prompt_tokens, max_tokens, watermark_blocks()) : why;
  }

  // The queue is looked at again in each step, and goes on being refused; while it waits for a
  // delay, time changes that. One that is swapped out is refused for want of seats, of budget, or
  // of blocks that only become fewer, and holds the queue back.
  std::int64_t repeats(const Batch& batch, std::int64_t most) const override {
    const bool stays = !swapped_.empty() || queue_stays(batch);
    return is_all_decodes(batch) && stays ? decode_repeats(batch, most) : 0;
  }

 private:
  std::size_t num_set_aside() const override { return swapped_.size(); }
  void removed(Slot slot) override {
    const auto it = std::find_if(swapped_.begin(), swapped_.end(),
                                 [&](const Swapped& swapped) { return swapped.slot == slot; });
    if (it == swapped_.end()) return;
    kv_.release_host(it->host);
    swapped_.erase(it);
  }

  void schedule(Ticks now, Batch& batch) override {
    std::int64_t budget = options_.max_num_batched_tokens;
    if (chunks_) {
      schedule_running(batch, budget);
      if (batch.preempted.empty()) swap_in(batch, budget);
      if (batch.preempted.empty() && swapped_.empty()) schedule_prompts(now, batch, budget);
      return;
    }
    if (swapped_.empty()) schedule_prompts(now, batch, budget);
    if (!batch.items.empty()) return;
    if (options_.policy == QueuePolicy::priority) make_way(batch, budget);
    schedule_running(batch, budget);
    if (batch.preempted.empty()) swap_in(batch, budget);
  }

  // In order of arrival; in the chunked variant decodes before what is left of prompts.
  void schedule_running(Batch& batch, std::int64_t& budget) {
    sort_running();
    for (std::size_t i = 0; i < running_.size() && budget > 0; ++i) {
      const Slot slot = running_[i];
      Sequence& s = at(slot);
      const std::int64_t tokens = std::min(next_tokens(s), budget);
      if (tokens <= 0 || (chunks_ && reads_prompt(s))) continue;
      if (!make_room(batch, i, room_until(s, s.computed + tokens))) break;
      put(batch, slot, tokens);
      budget -= tokens;
    }
    if (!chunks_) return;
    for (const Slot slot : running_) {
      const std::int64_t tokens = std::min(next_tokens(at(slot)), budget);
      if (tokens <= 0 || !reads_prompt(at(slot))) continue;
      put(batch, slot, tokens);  // a prompt has the blocks of its whole length
      budget -= tokens;
    }
  }

  static bool reads_prompt(const Sequence& s) { return s.computed + 1 < s.known; }

  void schedule_prompts(Ticks now, Batch& batch, std::int64_t& budget) {
    if (!passed_delay(now, batch)) return;
    while (!waiting_.empty()) {
      // First, so that a stretch of decodes does not pass from one reason to another.
      if (!has_seat()) return void(batch.limit = Limit::seats);
      const Slot slot = waiting_.front();
      const Sequence& s = at(slot);
      const std::int64_t found = find_prefix(s);
      std::int64_t tokens = uncached(s, found);
      if (chunks_) tokens = std::min(tokens, budget);
      if (!fits_whole(s, found, watermark_blocks())) return void(batch.limit = Limit::blocks);
      if (tokens > budget || budget == 0) return void(batch.limit = Limit::tokens);
      if (!admit(batch, slot, room_until(s, s.known), found)) {
        return void(batch.limit = Limit::blocks);
      }
      put(batch, slot, tokens);
      budget -= tokens;
      was_prompt_ = true;
    }
  }

  // delay_factor: the oldest has to wait so many times the last prompt step, for others to join it.
  bool passed_delay(Ticks now, Batch& batch) {
    if (was_prompt_) last_prompt_ = now - previous_;
    previous_ = now;
    was_prompt_ = false;
    if (options_.delay_factor <= 0 || waiting_.empty() || running_.empty()) return true;
    Ticks earliest = kNever;
    waiting_.for_each([&](Slot slot) { earliest = std::min(earliest, at(slot).arrival); });
    const double delay = options_.delay_factor * static_cast<double>(last_prompt_);
    const Ticks due = earliest + static_cast<Ticks>(std::min(delay, 4e18));
    if (now > due) return true;
    batch.limit = Limit::policy;
    batch.decide_again = due + 1;
    return false;
  }

  // By priority: while the first in the queue does not fit, running ones of lower priority leave.
  void make_way(Batch& batch, std::int64_t budget) {
    if (waiting_.empty() || !swapped_.empty()) return;
    sort_running();
    const Slot first = waiting_.front();
    const auto fits = [&] {
      const Sequence& s = at(first);
      const std::int64_t found = find_prefix(s);
      return has_seat() && fits_whole(s, found, watermark_blocks()) && uncached(s, found) <= budget;
    };
    for (std::size_t i = running_.size(); i-- > 0 && !fits();) {
      const Slot victim = running_[i];
      if (at(victim).priority <= at(first).priority) return;
      if (left(at(victim)) > 0) preempt(batch, victim);
    }
  }

  void give_up(Batch& batch, Slot slot) override {
    Sequence& s = at(slot);
    const bool swaps = options_.preemption_mode == PreemptionMode::swap;
    if (!swaps || s.kv.num_blocks > kv_.num_free_host()) return preempt(batch, slot);
    Swapped out{slot, kv_.take_host(s.kv.num_blocks)};
    const std::vector<Block> names = kv_.names(s.kv);
    for (std::size_t i = 0; i < names.size(); ++i) {
      batch.moves.swap_out.push_back({names[i], out.host[i]});
    }
    remove_running(slot);
    release_blocks(s);
    s.state = SequenceState::swapped;
    ++s.num_preemptions;
    ++counts_.num_preemptions;
    ++counts_.num_swaps;
    batch.preempted.push_back(s.request);
    swapped_.push_back(std::move(out));
    std::sort(swapped_.begin(), swapped_.end(),
              [&](const Swapped& a, const Swapped& b) { return comes_before(a.slot, b.slot); });
  }

  void swap_in(Batch& batch, std::int64_t& budget) {
    while (!swapped_.empty()) {
      const Slot slot = swapped_.front().slot;
      Sequence& s = at(slot);
      const std::int64_t tokens = std::min(next_tokens(s), budget);
      const std::int64_t end = room_until(s, s.computed + (reads_prompt(s) ? left(s) : tokens));
      if (tokens <= 0) return void(batch.limit = Limit::tokens);
      if (!has_seat()) return void(batch.limit = Limit::seats);
      if (!kv_.fits(s.content, end, s.most_tokens(), 0, watermark_blocks()) ||
          !take_blocks(s, end, 0)) {
        return void(batch.limit = Limit::blocks);
      }
      const Swapped back = std::move(swapped_.front());
      swapped_.erase(swapped_.begin());
      kv_.release_host(back.host);
      const std::vector<Block> names = kv_.names(s.kv);
      for (std::size_t i = 0; i < std::min(back.host.size(), names.size()); ++i) {
        batch.moves.swap_in.push_back({back.host[i], names[i]});
      }
      take_seat(batch, slot);
      put(batch, slot, tokens);
      budget -= tokens;
    }
  }

  struct Swapped {
    Slot slot = 0;
    std::vector<Block> host;  ///< its blocks there, by position
  };
  bool chunks_ = false;
  std::vector<Swapped> swapped_;  ///< in order of arrival
  Ticks previous_ = 0, last_prompt_ = 0;
  bool was_prompt_ = false;
};

}  // namespace

std::unique_ptr<Scheduler> make_vllm_v0(const EngineOptions& options,
                                        const BlockManager::Options& given) {
  BlockManager::Options kv = given;
  kv.named |= options.preemption_mode == PreemptionMode::swap;
  return std::make_unique<VllmV0>(options, kv);
}

}  // namespace tessera::serving
