#include "policies.h"

namespace tessera::serving {

const Registry<Scheduler, const EngineOptions&, const BlockManager::Options&>& schedulers() {
  static const Registry<Scheduler, const EngineOptions&, const BlockManager::Options&> all(
      "scheduler",
      {{{"vllm_v1", "One budget of tokens per step, prompts in chunks beside decodes",
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
        make_static},
       {{"micro_batches", "A plan's batch: prompts and tokens in micro-batches, one of them a step",
         "Zhao et al., LLM-PQ, PPoPP 2024"},
        make_micro_batches}});
  return all;
}

}  // namespace tessera::serving
