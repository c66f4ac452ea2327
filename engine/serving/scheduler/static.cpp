// Static batching, as FasterTransformer does it (sarathi-serve has it as
// scheduler/faster_transformer_scheduler.py): a batch runs until its last request has ended, and
// nobody joins it.

#include "policies.h"

namespace tessera::serving {
namespace {

class StaticBatch final : public Scheduler {
 public:
  using Scheduler::Scheduler;

  std::string note() const override {
    return "static computes the prompts of a batch in one step, whatever max_num_batched_tokens is";
  }

  // Nobody joins a batch, whoever waits, and its blocks were all taken at the start: in a step in
  // which others may have been refused for want of them, and not by this rule.
  std::int64_t repeats(const Batch& batch, std::int64_t most) const override {
    const bool stays = waiting_.empty() || batch.limit == Limit::policy;
    return is_all_decodes(batch) && stays ? decode_repeats(batch, most) : 0;
  }

 private:
  void schedule(Ticks, Batch& batch) override {
    if (running_.empty()) {
      start(batch);
    } else if (!waiting_.empty()) {
      batch.limit = Limit::policy;
    }
    for (const Slot slot : running_) {
      const Sequence& s = at(slot);
      const std::int64_t room = s.kv.num_blocks * kv_.block_size() - s.computed;
      const std::int64_t tokens = std::min(next_tokens(s), room);  // drafts may pass its end
      if (tokens > 0) put(batch, slot, tokens);
    }
  }

  // Blocks for all that a request may come to, so that a batch never runs out of them.
  void start(Batch& batch) {
    num_idle_ = idle_context_ = 0;
    while (!waiting_.empty()) {
      if (!has_seat()) return void(batch.limit = Limit::seats);
      const Slot slot = waiting_.front();
      const Sequence& s = at(slot);
      const std::int64_t most = std::min(s.most_tokens() - 1, model_len());  // that are computed
      if (!admit(batch, slot, most, find_prefix(s))) return void(batch.limit = Limit::blocks);
    }
  }

  void pad(StepLoad& load) const override {
    if (num_idle_ == 0 || load.num_requests == 0) return;
    load.num_idle = num_idle_;
    load.num_requests += num_idle_;
    load.tokens += num_idle_;
    load.context_tokens += idle_context_;
    load.num_decodes += num_idle_;
    load.decode_tokens += num_idle_;
    load.decode_context_tokens += idle_context_;
  }

  // Those that ended stay in the batch as padding, which grows by a token per step.
  void completed(const Batch& batch) override {
    if (options_.static_slots != StaticSlots::idle) return;
    idle_context_ += batch.load.num_idle;
    for (const BatchItem& item : batch.items) {
      const Sequence& s = sequence(item.slot);
      if (s.request == item.request && s.state == SequenceState::running) continue;
      ++num_idle_;
      idle_context_ += item.context + item.tokens;
    }
  }

  // One that leaves between two steps; of a step under way `completed` sees that it has left.
  void removed(Slot slot) override {
    const Sequence& s = sequence(slot);
    const bool is_idle = s.state == SequenceState::running && !s.is_under_way();
    if (!is_idle || options_.static_slots != StaticSlots::idle) return;
    ++num_idle_;
    idle_context_ += s.computed;
  }

  void repeated(const Batch& batch, std::int64_t steps) override {
    idle_context_ += steps * batch.load.num_idle;
  }

  std::int64_t num_idle_ = 0, idle_context_ = 0;
};

}  // namespace

std::unique_ptr<Scheduler> make_static(const EngineOptions& options,
                                       const BlockManager::Options& kv) {
  return std::make_unique<StaticBatch>(options, kv);
}

}  // namespace tessera::serving
