#include <fmt/format.h>

#include "policies.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::serving {
namespace {

struct Entry {
  SchedulerCard card;
  std::unique_ptr<Scheduler> (*make)(const EngineOptions&, const BlockManager::Options&);
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> list = {
      {{"vllm_v1", "One budget of tokens per step, prompts in chunks beside decodes",
        "vllm-project/vllm 0.24, vllm/v1/core/sched/scheduler.py"},
       make_vllm_v1},
      {{"vllm_v0", "Prompts first, whole, in steps of their own; decodes wait for them",
        "vllm-project/vllm up to 0.9, vllm/core/scheduler.py"},
       make_vllm_v0},
      {{"sarathi", "Decodes first, then pieces of prompts up to chunk_size tokens in all",
        "Agrawal et al., OSDI 2024; microsoft/sarathi-serve, sarathi/core/scheduler"},
       make_sarathi},
      {{"sglang", "Prompts first, longest cached prefix first; keeps memory back for outputs",
        "sgl-project/sglang, python/sglang/srt/managers/schedule_policy.py"},
       make_sglang},
      {{"orca", "Requests join and leave at every step; memory for the longest is set aside",
        "Yu et al., OSDI 2022"},
       make_orca},
      {{"static", "A batch runs until its last request has ended, and nobody joins it",
        "microsoft/sarathi-serve, faster_transformer_scheduler.py"},
       make_static}};
  return list;
}

}  // namespace

const std::vector<SchedulerCard>& scheduler_cards() {
  static const std::vector<SchedulerCard> cards = [] {
    std::vector<SchedulerCard> all;
    for (const Entry& entry : entries()) all.push_back(entry.card);
    return all;
  }();
  return cards;
}

std::unique_ptr<Scheduler> make_scheduler(const EngineOptions& options,
                                          const BlockManager::Options& kv) {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) {
    if (entry.card.name == options.scheduler) return entry.make(options, kv);
    names.push_back(entry.card.name);
  }
  throw Error(ErrorCode::not_found,
              fmt::format("there is no scheduler '{}'{}", options.scheduler,
                          did_you_mean(options.scheduler, names)),
              "scheduler");
}

}  // namespace tessera::serving
