#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/serving/engine_options.h"
#include "tessera/solver/plan/plan.h"

namespace tessera::solver {

/// Where the memory of one device of a stage goes (bytes).
struct StageKvMemory {
  double usable_bytes = 0;      ///< gpu_memory_utilization of what CUDA sees of the device
  double weight_bytes = 0;      ///< layers, embedding and LM head held here, rotary tables
  double activation_bytes = 0;  ///< peak of a step with max_num_batched_tokens, or of its sampling
  double runtime_bytes = 0;     ///< of the runtime beside its allocator
  double kv_bytes = 0;          ///< what is left for keys and values; may be negative
  double window_bytes = 0;      ///< of these, for windowed layers of max_num_seqs requests
  double block_bytes = 0;       ///< of one block, of all layers that take one
};

/// The KV cache that a plan has under an engine, as vLLM hands it out: each stage offers as many
/// blocks as its devices hold, and all take the least of these.
struct KvCapacity {
  std::int64_t block_size = 16;
  std::int64_t blocks = 0;  ///< 0: nothing fits, see why_not
  std::int64_t tokens() const { return blocks * block_size; }
  std::vector<StageKvMemory> stages;
  std::size_t binding_stage = 0;  ///< that has room for the fewest
  std::string why_not;            ///< for people, with numbers; empty where there are blocks
};

/// After vllm/v1/worker/gpu_worker.py: gpu_memory_utilization x the device's memory as CUDA reports
/// it - weights - the peak of a profiling step (max_num_batched_tokens tokens through the layers,
/// then sampling from max_num_seqs logits) - what the runtime takes besides. CUDA graphs come out
/// of what gpu_memory_utilization leaves. With engine.kv_blocks it is that many, whatever fits.
/// Beside layers that see all tokens, windowed ones keep their windows alone (vLLM's hybrid cache
/// manager); where all are windowed they keep all tokens.
/// Constants of other runs than those it is compared with (tests/unit/solver): the driver keeps
/// 440 MiB (RTX 3090 23.58 GiB of 24 GiB, vllm#14447; H100 79.22 of 79.65 GiB, vllm#12126); the
/// runtime takes 0.16 GiB alone (vllm#12126) and 0.20 GiB in a tensor-parallel group (vllm#14447);
/// sampling 38 bytes per logit, by its tensors.
/// @throws Error{unsupported | invalid_argument} as make_step_cost.
KvCapacity kv_capacity(const PipelinePlan& plan, const serving::EngineOptions& engine);

}  // namespace tessera::solver
