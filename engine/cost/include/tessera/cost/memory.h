#pragma once

#include <cstdint>

#include "tessera/core/device.h"
#include "tessera/core/enum_names.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/stage_place.h"
#include "tessera/core/workload.h"

namespace tessera::cost {

enum class MemoryPreset {
  physical,  ///< what a well-made runtime needs: grouped scales, embedding first, LM head last,
             ///< activations everywhere
  llm_pq,    ///< as LLM-PQ's published code counts it: no scales, no window, all of embedding and
             ///< LM head on the first stage
};

}  // namespace tessera::cost

namespace tessera {

template <>
inline constexpr auto kEnumNames<cost::MemoryPreset> = enum_names<cost::MemoryPreset>(
    {{cost::MemoryPreset::physical, "physical"}, {cost::MemoryPreset::llm_pq, "llm-pq"}});

}  // namespace tessera

namespace tessera::cost {

struct MemoryQuery {
  MemoryPreset preset = MemoryPreset::physical;
  std::int32_t kv_bitwidth = 16;
  double group_size =
      128;  ///< weights that share one scale and zero point; 0: one per output channel
};

/// Weights of one decoder layer: matrices at `bitwidth` with scales and zero points below 16 bits,
/// norms and biases in FP16.
double layer_weight_bytes(const LayerShape& layer, double bitwidth, const MemoryQuery& query);

/// KV cache of one layer for the whole batch at full length (longest prompt + longest output, or
/// the attention window).
/// @throws Error{out_of_range} for a kv_bitwidth outside [kMinKvBitwidth, kMaxKvBitwidth].
double layer_kv_bytes(const LayerShape& layer, const Workload& workload, const MemoryQuery& query);
/// Of `sequences` that have reached `tokens` each.
double layer_kv_bytes(const LayerShape& layer, double sequences, double tokens,
                      const MemoryQuery& query);

/// Embeddings and LM head in FP16 on a stage.
double embedding_bytes(const ModelShape& model, StagePlace place, const MemoryQuery& query);

/// Largest live activations of a micro-batch in either phase on such a stage.
/// `physical`, FP16 unless said otherwise: residual stream and normed input, with either Q, K, V,
/// attention output and a flash-style workspace (FP32 statistics per row and head; split partial
/// outputs in decode) or the widest FFN intermediate (gated: two; active experts and their
/// outputs); two buffers to receive unless first, two to send unless last; on the last stage at
/// least the FP32 logits of one position per sequence. `llm_pq`: prefill, first stage only, per
/// sequence max(20 s h + 4 s h2 + 2 s^2, s (3 h + 2 d_t)); decode 16 h + 4 h2 + 6 c + 4 c h per
/// sequence of the WHOLE batch on every stage, c = s + n: the published code charges it whatever
/// the micro-batch (its last term is the copy that appending to one layer's cache makes), and all
/// published plans leave room for it.
double prefill_activation_bytes(const ModelShape& model, const Workload& workload,
                                std::int64_t micro_batch_size, StagePlace place,
                                const MemoryQuery& query);
double decode_activation_bytes(const ModelShape& model, const Workload& workload,
                               std::int64_t micro_batch_size, StagePlace place,
                               const MemoryQuery& query);

/// Memory that no plan may use: runtime context and allocator slack. `physical`: 750 MiB + 3 %
/// (assumed); `llm_pq`: 1930 MiB + 5 % (published).
double reserve_bytes(const Device& device, const MemoryQuery& query);

}  // namespace tessera::cost
