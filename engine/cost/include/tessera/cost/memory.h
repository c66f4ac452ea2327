#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/core/device.h"
#include "tessera/core/enum_names.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/runtime_version.h"
#include "tessera/core/stage_place.h"
#include "tessera/core/workload.h"

namespace tessera::cost {

enum class MemoryPreset {
  physical,  ///< what a well-made runtime needs: grouped scales, embedding first, LM head last,
             ///< activations everywhere
  llm_pq,    ///< as LLM-PQ's published code counts it: no scales, no window, all of embedding and
             ///< LM head on the first stage
  tessera,  ///< as workers of our own runtime take it on CPUs: numbers that are no weights in FP32,
            ///< the embedding read where its file lies
  llama_cpp,  ///< as llama.cpp's servers take it: layers and LM head as GGUF files have them, the
              ///< embedding in the host's memory, buffers of a step of kLlamaCppStepTokens
  vllm,       ///< as vLLM's workers find it, for KV caches that take what is left
};

}  // namespace tessera::cost

namespace tessera {

/// What a problem's `memory` may be: vLLM's counts by the limits of an engine, not by a batch.
template <>
inline constexpr auto kEnumNames<cost::MemoryPreset> =
    enum_names<cost::MemoryPreset>({{cost::MemoryPreset::physical, "physical"},
                                    {cost::MemoryPreset::llm_pq, "llm-pq"},
                                    {cost::MemoryPreset::tessera, "tessera"},
                                    {cost::MemoryPreset::llama_cpp, "llama.cpp"}});

}  // namespace tessera

namespace tessera::cost {

struct KernelSet;

/// What a runtime takes of each device besides the model: what is known of one, and from which of
/// its versions on, is a row in memory.cpp, with its source, and is said nowhere else.
struct RuntimeMemory {
  double hidden_bytes = 0;         ///< of the nominal memory, that CUDA does not show: the driver's
  double utilisation = 1;          ///< share that it takes of the rest where nobody says another
  double context_bytes = 0;        ///< context, kernels, workspaces, beside the allocator
  double group_context_bytes = 0;  ///< the same in a tensor-parallel group
  double switch_context_bytes = 0;  ///< and more of it where NVSwitches add up (Hopper and later)
  double graph_bytes = 0;           ///< CUDA graphs, where they count as used: some anyway
  double layer_graph_bytes = 0;     ///< and some for every decoder layer
  double logit_bytes = 0;           ///< sampling, of each logit
  double slack_ratio = 0;           ///< of the nominal memory, that the allocator loses
  bool rotary_tables = false;       ///< each device holds the sines and cosines of all positions
};

struct MemoryQuery {
  MemoryPreset preset = MemoryPreset::physical;
  std::int32_t kv_bitwidth = 16;
  double group_size =
      128;  ///< weights that share one scale and zero point; 0: one per output channel
  RuntimeVersion version = {};  ///< of vLLM
  bool mxfp4_experts = false;   ///< 4 bits are MXFP4 of the experts alone, see has_mxfp4_experts
  /// To what such experts are padded: multiples of hidden features, and of features within.
  double mxfp4_hidden_multiple = 128, mxfp4_inner_multiple = 128;
  std::vector<KeptLinear> kept = {};  ///< in 16 bits whatever a layer has: ModelShape's
  /// llama_cpp: of a weight of a GGUF file that is served as it is; else by the plan's bitwidths.
  std::optional<double> file_bits = {};
  std::int32_t head_bitwidth = 16;  ///< llama_cpp: of the layers that the LM head's type follows
};

/// The query for a checkpoint of the model: what of it is quantised, and how, and what the kernels
/// that read it pad.
MemoryQuery of_checkpoint(MemoryQuery query, const ModelShape& model, const KernelSet& kernels);

/// Whether a model is published in MXFP4 (gpt-oss): its experts, all else in BF16.
bool has_mxfp4_experts(const ModelShape& model);

/// Of a number of hidden states, live or on their way to the next stage.
constexpr double activation_bytes(MemoryPreset preset) {
  return preset == MemoryPreset::tessera ? 4 : 2;
}

/// Tokens of a step of llama.cpp (--ubatch-size), whose buffers it allocates whatever is asked.
inline constexpr double kLlamaCppStepTokens = 512;

const RuntimeMemory& runtime_memory(const MemoryQuery& query);

/// Weights of one decoder layer: matrices at `bitwidth` with scales and zero points below 16 bits,
/// norms and biases in FP16.
double layer_weight_bytes(const LayerShape& layer, double bitwidth, const MemoryQuery& query);

/// KV cache of one layer for the whole batch at full length (longest prompt + longest output, or
/// the attention window). `tessera`: 16 bits lie in FP32, 8 bits have an FP32 scale for each head
/// and token.
/// @throws Error{out_of_range} for a kv_bitwidth outside [kMinKvBitwidth, kMaxKvBitwidth].
double layer_kv_bytes(const LayerShape& layer, const Workload& workload, const MemoryQuery& query);
/// Of `sequences` that have reached `tokens` each.
double layer_kv_bytes(const LayerShape& layer, double sequences, double tokens,
                      const MemoryQuery& query);

/// Whether a stage has final norm and LM head: the last one; of LLM-PQ's pipelines the first.
constexpr bool holds_lm_head(StagePlace place, MemoryPreset preset) {
  return preset == MemoryPreset::llm_pq ? is_first(place) : is_last(place);
}

/// Embeddings and LM head in FP16 on a stage, rotary tables where the runtime keeps them, and on
/// every device of a server the encoders of pictures and sound.
double embedding_bytes(const ModelShape& model, StagePlace place, const MemoryQuery& query);

/// Largest live activations of a micro-batch in either phase on such a stage.
/// `physical`, FP16 (`tessera`: FP32) unless said otherwise: residual stream and normed input, with
/// either Q, K, V, attention output and a flash-style workspace (FP32 statistics per row and head;
/// split partial outputs in decode) or the widest FFN intermediate (gated: two; active experts and
/// their outputs); two buffers to receive unless first, two to send unless last; on the last stage
/// at least the FP32 logits of one position per sequence. `llm_pq`: prefill, first stage only, per
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

/// The same of a step of continuous batching, on one device: the most tokens of a step through its
/// layers, or sampling of the most requests from logits of the whole vocabulary, which every device
/// of the last stage gathers. @param member what the device holds of `whole`
double step_activation_bytes(const ModelShape& whole, const ModelShape& member,
                             std::int64_t max_tokens, std::int64_t max_sequences, StagePlace place,
                             const MemoryQuery& query);

/// Of a device that does nothing of a layer but attention of these heads, in either phase: Q, K, V,
/// outputs and workspace.
double attention_buffer_bytes(const LayerShape& layer, const Workload& workload,
                              std::int64_t prefill_micro_batch_size,
                              std::int64_t decode_micro_batch_size, const MemoryQuery& query);

/// Where the memory of one device goes (bytes).
struct MemoryAccount {
  double capacity_bytes = 0;  ///< by its data sheet
  double usable_bytes = 0;    ///< the runtime's share of what CUDA shows of it
  double reserve_bytes = 0;   ///< of that: the runtime, CUDA graphs and the allocator's slack
  double weight_bytes = 0;    ///< decoder layers
  double embedding_bytes = 0;
  double activation_bytes = 0;
  double kv_bytes = 0;

  double left_bytes() const {
    return usable_bytes - (weight_bytes + embedding_bytes) - activation_bytes - reserve_bytes -
           kv_bytes;
  }
};

/// The account of a device that holds nothing yet, one of `degree` of a tensor-parallel group.
/// @param utilisation share that the runtime may have of what CUDA shows; absent: its own
/// @param num_layers that CUDA graphs are captured of
MemoryAccount empty_account(const Device& device, const MemoryQuery& query, std::int64_t degree = 1,
                            std::optional<double> utilisation = std::nullopt,
                            std::int64_t num_layers = 0);

}  // namespace tessera::cost
