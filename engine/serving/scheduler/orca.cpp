// Orca's iteration-level scheduling (Yu et al., OSDI 2022; sarathi-serve has it as
// scheduler/orca_scheduler.py): requests join and leave between steps, prompts and decodes share
// them. Memory for the longest sequence is set aside at admission, so that nothing is preempted;
// there is no budget of tokens, so that a long prompt holds everybody up.

#include "policies.h"

namespace tessera::serving {
namespace {

class Orca final : public Scheduler {
 public:
  using Scheduler::Scheduler;

  std::string note() const override {
    if (options_.kv_allocation == KvAllocation::contiguous) return {};
    return options_.max_model_len > 0
               ? "orca sets memory for max_model_len tokens aside for each request"
               : "orca sets memory for prompt and max_tokens aside for each request, since "
                 "max_model_len is not given";
  }

  // Decodes have their memory, and the queue comes after them.
  std::int64_t repeats(const Batch& batch, std::int64_t most) const override {
    return is_all_decodes(batch) && queue_stays(batch) ? decode_repeats(batch, most) : 0;
  }

 private:
  void schedule(Ticks, Batch& batch) override {
    for (const Slot slot : running_) {
      const std::int64_t tokens = next_tokens(at(slot));
      if (tokens > 0) put(batch, slot, tokens);
    }
    while (!waiting_.empty()) {
      if (!has_seat()) return void(batch.limit = Limit::seats);
      const Slot slot = waiting_.front();
      const Sequence& s = at(slot);
      if (!admit(batch, slot, room_until(s, s.known), 0)) {
        return void(batch.limit = Limit::blocks);
      }
      put(batch, slot, uncached(s, 0));
    }
  }
};

}  // namespace

std::unique_ptr<Scheduler> make_orca(const EngineOptions& given,
                                     const BlockManager::Options& kv_given) {
  EngineOptions options = given;
  BlockManager::Options kv = kv_given;
  if (kv.allocation == KvAllocation::paged) {
    options.kv_allocation = kv.allocation = KvAllocation::maximum;
  }
  options.enable_prefix_caching = kv.prefix_caching = false;
  return std::make_unique<Orca>(options, kv);
}

}  // namespace tessera::serving
