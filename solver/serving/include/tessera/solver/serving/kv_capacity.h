#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/cost/memory.h"
#include "tessera/serving/engine_options.h"
#include "tessera/solver/serving/priced_engine.h"

namespace tessera::solver {

/// Where the memory of one device of a stage goes (bytes); `kv_bytes`, what is left for keys and
/// values, may be negative.
struct StageKvMemory : cost::MemoryAccount {
  double window_bytes = 0;  ///< of kv_bytes, for windowed layers of max_num_seqs requests
  double state_bytes = 0;   ///< of kv_bytes, for states of max_num_seqs requests
  double block_bytes = 0;   ///< of one block, of all layers that take one

  double cache_bytes() const { return kv_bytes - window_bytes - state_bytes; }  ///< for blocks
};

/// The KV cache that a placed engine has, as vLLM hands it out: each stage offers as many
/// blocks as its devices hold, and all take the least of these.
struct KvCapacity {
  std::int64_t block_size = 16;
  std::int64_t blocks = 0;  ///< 0: nothing fits, see why_not
  std::int64_t tokens() const { return blocks * block_size; }
  std::vector<StageKvMemory> stages;
  std::size_t binding_stage = 0;  ///< that has room for the fewest
  std::string why_not;            ///< for people, with numbers; empty where there are blocks
  double missing_bytes = 0;       ///< for one block, where there are none
};

/// After vllm/v1/worker/gpu_worker.py: gpu_memory_utilization x the device's memory as CUDA reports
/// it - weights - the peak of a profiling step (max_num_batched_tokens tokens through the layers,
/// then sampling from max_num_seqs logits) - what the runtime takes besides, from 0.21 on CUDA
/// graphs too. With engine.kv_blocks it is that many, whatever fits.
/// Beside layers that see all tokens, windowed ones keep their windows alone (vLLM's hybrid cache
/// manager); where all are windowed they keep all tokens.
/// States of fixed size are set aside for max_num_seqs requests, as vLLM did before it took them
/// from the pool of blocks; later versions start fewer requests where blocks run short. With
/// data-parallel attention blocks are those of all parts of a group, each of which has a share of
/// the seats. What vLLM takes besides: cost::MemoryPreset::vllm.
/// @throws Error{unsupported | invalid_argument} as make_step_cost.
KvCapacity kv_capacity(const PricedEngine& priced, const serving::EngineOptions& engine);

/// Weights of a device of a stage as vLLM holds them, embeddings with them.
double stage_weight_bytes(const cost::PricingContext& context, const cost::Stage& stage);

/// As the engine is told, else as its version of vLLM has it.
double gpu_memory_utilization(const serving::EngineOptions& engine);

}  // namespace tessera::solver
