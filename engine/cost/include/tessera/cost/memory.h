#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/core/device.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/workload.h"

namespace tessera::cost {

enum class MemoryPreset {
  physical,  ///< what a well-made runtime needs: grouped scales, embedding first, LM head last,
             ///< activations everywhere
  llm_pq,    ///< as LLM-PQ's published code counts it (planner.md section 1)
};
std::string_view to_string(MemoryPreset preset);

struct MemoryQuery {
  MemoryPreset preset = MemoryPreset::physical;
  double kv_bitwidth = 16;
  double group_size =
      128;  ///< weights that share one scale and zero point; 0: one per output channel
};

/// Weights of one decoder layer: matrices at `bitwidth` with scales and zero points below 16 bits,
/// norms and biases in FP16.
double layer_weight_bytes(const LayerShape& layer, double bitwidth, const MemoryQuery& query);

/// KV cache of one layer for the whole batch at full length (longest prompt + longest output, or
/// the attention window).
double layer_kv_bytes(const LayerShape& layer, const Workload& workload, const MemoryQuery& query);

/// Embeddings and LM head in FP16 on a stage that is first, last, both or neither.
double embedding_bytes(const ModelShape& model, bool first, bool last, const MemoryQuery& query);

/// Largest live activations of a micro-batch in either phase on such a stage.
double prefill_activation_bytes(const ModelShape& model, const Workload& workload,
                                std::int64_t micro_batch_size, bool first, bool last,
                                const MemoryQuery& query);
double decode_activation_bytes(const ModelShape& model, const Workload& workload,
                               std::int64_t micro_batch_size, bool first, bool last,
                               const MemoryQuery& query);

/// Memory that no plan may use: runtime context and allocator slack.
double reserve_bytes(const Device& device, const MemoryQuery& query);

}  // namespace tessera::cost
