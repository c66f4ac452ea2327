// vLLM's V1 scheduler (v1/core/sched/scheduler.py of 0.24): one budget of tokens, and no phases.
// Every request catches up from what is computed to what is known; running ones first, in order of
// admission, then the queue.

#include <fmt/format.h>

#include <algorithm>

#include "policies.h"

namespace tessera::serving {
namespace {

class VllmV1 final : public Scheduler {
 public:
  VllmV1(const EngineOptions& options, const KvCache::Options& kv) : Scheduler(options, kv) {
    const auto& speculative = options.speculative;
    if (speculative && speculative->method != DraftMethod::ngram) {
      lookahead_ = speculative->num_tokens;  // slots that the draft model writes ahead
    }
  }

  std::string why_never(std::int64_t prompt_tokens, std::int64_t max_tokens) const override {
    const std::int64_t most = std::min(prompt_tokens + max_tokens, model_len());
    if (!options_.enable_chunked_prefill && most > options_.max_num_batched_tokens) {
      return fmt::format(
          "{} tokens cannot be computed in one step of {} (max_num_batched_tokens), and "
          "enable_chunked_prefill is off",
          most, options_.max_num_batched_tokens);
    }
    return Scheduler::why_never(prompt_tokens, max_tokens);
  }

  std::int64_t repeats(const Batch& batch, std::int64_t most) const override {
    if (options_.speculative || !batch.preempted.empty() || !batch.load.chunks.empty() ||
        batch.items.size() != running_.size()) {
      return 0;
    }
    // An empty queue, or one whose first request goes on being refused: seats stay taken, and free
    // blocks only become fewer. With a prefix cache it may find more of its blocks.
    const bool refused =
        batch.limit == Limit::seats || (batch.limit == Limit::blocks && !kv_.caches_prefixes());
    if (!waiting_.empty() && !refused) return 0;
    return decode_repeats(batch, most);
  }

 private:
  void schedule(Ticks, Batch& batch) override {
    std::int64_t budget = options_.max_num_batched_tokens;
    schedule_running(batch, budget);
    if (batch.preempted.empty()) schedule_waiting(batch, budget);
  }

  std::int64_t capped(std::int64_t tokens, std::int64_t budget) const {
    const std::int64_t threshold = options_.long_prefill_token_threshold;
    if (threshold > 0) tokens = std::min(tokens, threshold);
    return std::min(tokens, budget);
  }

  void schedule_running(Batch& batch, std::int64_t& budget) {
    for (std::size_t i = 0; i < running_.size() && budget > 0; ++i) {
      const Slot slot = running_[i];
      Sequence& s = at(slot);
      const std::int64_t tokens = std::min(capped(left(s), budget), model_len() - 1 - s.computed);
      if (tokens <= 0) continue;  // its last step is still under way
      bool preempted_itself = false;
      while (!extend(s, std::min(s.computed + tokens + lookahead_, model_len()))) {
        const Slot victim = choose_victim();
        preempted_itself = victim == slot;
        give_up(batch, victim, i, budget);
        if (preempted_itself) break;
      }
      if (preempted_itself) break;
      put(batch, slot, tokens);
      budget -= tokens;
    }
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
  void give_up(Batch& batch, Slot victim, std::size_t& i, std::int64_t& budget) {
    remove_running(victim);
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
      if (static_cast<std::int64_t>(running_.size()) >= options_.max_num_seqs) {
        return stop(batch, Limit::seats);
      }
      const Slot slot = waiting_.front();
      Sequence& s = at(slot);
      const std::int64_t found = s.computed == 0 ? find(s) : 0;
      const std::int64_t before = s.computed + found * kv_.block_size();
      std::int64_t tokens = s.known - before;
      const std::int64_t threshold = options_.long_prefill_token_threshold;
      if (threshold > 0) tokens = std::min(tokens, threshold);
      if (!options_.enable_chunked_prefill && tokens > budget) return stop(batch, Limit::tokens);
      tokens = std::min(tokens, budget);
      // The whole request has to fit, not only its first piece.
      const std::int64_t end = std::min(before + tokens + lookahead_, model_len());
      const bool all_fit =
          s.kv.num_blocks > 0 ||
          kv_.fits(s.content, std::min(s.known, model_len()), s.most_tokens(), found);
      if (!all_fit || !admit(batch, end, found)) return stop(batch, Limit::blocks);
      put(batch, slot, tokens);
      budget -= tokens;
    }
  }

  // EAGLE reads the hidden state before each token, which the last found block would be without.
  std::int64_t find(const Sequence& s) const {
    const std::int64_t found = find_prefix(s);
    const auto& speculative = options_.speculative;
    const bool eagle = speculative && speculative->method == DraftMethod::eagle;
    return eagle ? std::max<std::int64_t>(0, found - 1) : found;
  }

  static void stop(Batch& batch, Limit limit) { batch.limit = limit; }

  std::int64_t lookahead_ = 0;
};

}  // namespace

std::unique_ptr<Scheduler> make_vllm_v1(const EngineOptions& options, const KvCache::Options& kv) {
  return std::make_unique<VllmV1>(options, kv);
}

}  // namespace tessera::serving
