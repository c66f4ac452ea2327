// Sarathi's stall-free batching (Agrawal et al., OSDI 2024; sarathi-serve,
// scheduler/sarathi_scheduler.py): every decode first, then pieces of prompts up to chunk_size
// tokens in all. A prompt takes the blocks of its whole length at admission.

#include "policies.h"

namespace tessera::serving {
namespace {

class Sarathi final : public Scheduler {
 public:
  using Scheduler::Scheduler;

  std::string why_never(std::int64_t prompt_tokens, std::int64_t max_tokens) const override {
    return why_no_room(prompt_tokens, max_tokens, watermark_blocks());
  }

  // Decodes come first and fill the same part of the chunk; where they fill all of it, the queue
  // stays out as well.
  std::int64_t repeats(const Batch& batch, std::int64_t most) const override {
    const bool stays = queue_stays(batch) || batch.limit == Limit::tokens;
    return is_all_decodes(batch) && stays ? decode_repeats(batch, most) : 0;
  }

 private:
  void schedule(Ticks, Batch& batch) override {
    sort_running();
    std::int64_t used = 0;
    for (std::size_t i = 0; i < running_.size(); ++i) {  // gives up those behind i
      const Slot slot = running_[i];
      Sequence& s = at(slot);
      const std::int64_t tokens = next_tokens(s);
      if (tokens <= 0 || is_in_prompt(s)) continue;
      if (!make_room(batch, i, room_until(s, s.computed + tokens))) break;
      put(batch, slot, tokens);
      used += tokens;
    }
    for (const Slot slot : running_) {
      const std::int64_t tokens = std::min(next_tokens(at(slot)), options_.chunk_size - used);
      if (tokens <= 0 || !is_in_prompt(at(slot))) continue;
      put(batch, slot, tokens);
      used += tokens;
    }
    if (batch.preempted.empty()) schedule_waiting(batch, used);
  }

  /// Not read to its end; what a preempted one had generated is read again with the prompt.
  static bool is_in_prompt(const Sequence& s) { return s.computed + 1 < s.known; }

  void schedule_waiting(Batch& batch, std::int64_t used) {
    while (!waiting_.empty()) {
      if (used >= options_.chunk_size) return void(batch.limit = Limit::tokens);
      if (!has_seat()) return void(batch.limit = Limit::seats);
      const Slot slot = waiting_.front();
      const Sequence& s = at(slot);
      const std::int64_t found = find_prefix(s);
      if (!fits_whole(s, found, watermark_blocks()) ||
          !admit(batch, slot, room_until(s, s.known), found)) {
        return void(batch.limit = Limit::blocks);
      }
      const std::int64_t tokens = std::min(left(s), options_.chunk_size - used);
      put(batch, slot, tokens);
      used += tokens;
    }
  }
};

}  // namespace

std::unique_ptr<Scheduler> make_sarathi(const EngineOptions& options,
                                        const BlockManager::Options& kv) {
  return std::make_unique<Sarathi>(options, kv);
}

}  // namespace tessera::serving
