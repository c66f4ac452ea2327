#include "tessera/cost/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "counts.h"
#include "layer_operators.h"
#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/cost/gguf.h"

namespace tessera::cost {
namespace {

// Assumed, not measured here: a context with its loaded kernels takes 300-500 MiB on Turing to
// Hopper, GEMM workspaces tens of MiB, collective or point-to-point buffers the rest; a caching
// allocator loses a few per cent to rounding and fragmentation.
constexpr RuntimeMemory kPhysical{
    .context_bytes = 750 * kMiB, .group_context_bytes = 750 * kMiB, .slack_ratio = 0.03};

// Published: 5 % of the capacity against fragmentation, and a CUDA context.
constexpr RuntimeMemory kLlmPq{
    .context_bytes = 1930 * kMiB, .group_context_bytes = 1930 * kMiB, .slack_ratio = 1 - 0.95};

// Measured on the model that ships (experiments/runtime/memory.lua): a worker that has loaded it
// has 2.6 to 2.9 MiB of anonymous memory beside weights and cache, much of it relocations.
constexpr RuntimeMemory kTessera{.context_bytes = 2.8 * kMiB, .group_context_bytes = 2.8 * kMiB};

// llama.cpp: what the driver hides is as in vLLM's. Assumed, not measured here: CUDA's context with
// the kernels that it loads, and cuBLAS's workspace.
constexpr RuntimeMemory kLlamaCpp{
    .hidden_bytes = 440 * kMiB, .context_bytes = 350 * kMiB, .group_context_bytes = 350 * kMiB};

// vLLM, from a version on. Of other runs than those that it is compared with (tests/unit/solver)
// unless said. The driver: RTX 3090 23.58 of 24 GiB (vllm#14447), H100 79.22 of 79.65 (vllm#12126);
// hidden_bytes has older boards.
// The runtime: alone vllm#12126, in a group vllm#14447; four H100 under one NVSwitch had 0.9 GiB
// less for Qwen3-235B than is known otherwise (vllm#21348). Sampling, of each logit of the most
// requests (vllm/v1/sample/ops/topk_topp_sampler.py): in BF16 and FP32 (6), sorted values and
// 64-bit indices with the sort's own copies (24), softmax and its running sum (8); 1.04 GiB in a
// step of 256 requests with 152,064 of them were printed by 0.26. CUDA graphs, once they are taken
// off the KV cache (vllm/v1/worker/gpu_worker.py): 0.48 and 0.68 GiB were printed for 28 and 36
// layers. The slack keeps the account from exceeding what people printed (experiments/fidelity).
struct VllmMemory {
  RuntimeVersion since;
  RuntimeMemory memory;
};
constexpr RuntimeMemory kFirstVllm{.hidden_bytes = 440 * kMiB,
                                   .utilisation = 0.9,
                                   .context_bytes = 0.16 * kGiB,
                                   .group_context_bytes = 0.20 * kGiB,
                                   .switch_context_bytes = 0.9 * kGiB,
                                   .logit_bytes = 38,
                                   .slack_ratio = 0.003,
                                   .rotary_tables = true};
constexpr RuntimeMemory with_graphs(RuntimeMemory memory, double utilisation) {
  memory.utilisation = utilisation;
  memory.graph_bytes = 0.25 * kGiB;
  memory.layer_graph_bytes = 12 * kMiB;
  memory.logit_bytes = 28;
  return memory;
}
constexpr VllmMemory kVllm[] = {{{0, 0}, kFirstVllm},
                                {{0, 21}, with_graphs(kFirstVllm, 0.9)},
                                {{0, 22}, with_graphs(kFirstVllm, 0.92)}};

constexpr double kTuring = 7.5, kGa100 = 8.0, kHopper = 9;  ///< compute capabilities
constexpr double kTuringHidden = 0.2 * kGiB;

// A decode kernel splits long contexts over thread blocks and keeps one partial result per split.
constexpr double kContextTokensPerSplit = 256;
constexpr double kMaxSplits = 8;

void check_range(double value, double low, double high, const char* name) {
  if (std::isfinite(value) && value >= low && value <= high) return;
  throw Error(ErrorCode::out_of_range,
              fmt::format("{} is {}, the allowed range is [{}, {}]", name, value, low, high), name);
}

/// What the driver keeps of the memory on a sheet. Sheets of boards up to the A100 have what CUDA
/// sees, as drivers printed it until 510: V100 31.74 GiB (ChatGLM-Finetuning#73), A100 of 40 GB
/// 39.39 and 39.50 (bottlerocket#3873, CoSeR#10). On Turing today's drivers keep more: T4 14.56 of
/// 14.76 GiB (CatVTON#133, leetgpu-challenges#52).
double hidden_bytes(const Device& device, const RuntimeMemory& runtime) {
  if (device.compute_capability > kGa100) return runtime.hidden_bytes;
  return device.compute_capability == kTuring ? std::min(runtime.hidden_bytes, kTuringHidden) : 0;
}

double longest_context(const Workload& workload) {
  return count(workload.max_prompt_tokens) + count(workload.max_output_tokens);
}

// New tokens of one sequence in the largest prefill pass.
double prefill_tokens(const Workload& workload) {
  const std::int64_t prompt = workload.max_prompt_tokens;
  return count(workload.chunk_tokens ? std::min(*workload.chunk_tokens, prompt) : prompt);
}

double kv_width(const LayerShape& layer) {
  return count(layer.num_kv_heads) * count(layer.head_dim);
}

// Published code: one norm of 2 h parameters per layer, whatever the family has.
double llm_pq_norm_bytes(const LayerShape& layer) {
  const std::int64_t hidden = layer.linears.empty() ? 0 : layer.linears.front().in_features;
  return 2 * count(hidden) * kFp16Bytes;
}

// One fp16 scale and one packed zero point for every group of a row.
double quantization_metadata_bytes(const LinearShape& linear, double bitwidth, double group_size) {
  const double groups = group_size > 0 ? std::ceil(count(linear.in_features) / group_size) : 1;
  return count(linear.out_features) * count(linear.num_copies) * groups *
         (kFp16Bytes + bitwidth / 8);
}

// 32 values in 17 bytes, as large as the kernels want them; what is no expert stays in BF16.
double mxfp4_bytes(const LinearShape& linear, const MemoryQuery& query) {
  if (!is_expert(linear)) return count(linear.parameters()) * kFp16Bytes;
  const bool to_hidden = linear.name == kExpertsDown;
  const std::int64_t hidden = to_hidden ? linear.out_features : linear.in_features;
  const std::int64_t inner = to_hidden ? linear.in_features : linear.out_features;
  return padded_to(count(hidden), query.mxfp4_hidden_multiple) *
         padded_to(count(inner), query.mxfp4_inner_multiple) * count(linear.num_copies) * 17 / 32;
}

// Of the layers that have the matrix in 16 bits, as many everywhere: which they are matters little.
double kept_share(const LinearShape& linear, const MemoryQuery& query) {
  for (const KeptLinear& kept : query.kept) {
    if (kept.name == linear.name) return kept.share;
  }
  return 0;
}

double gguf_bytes(const LinearShape& linear, std::int32_t bitwidth, const MemoryQuery& query) {
  const double mixed = is_expert(linear) ? kGgufMxfp4Bits : gguf_bits(8);
  const double made = query.mxfp4_experts && bitwidth == 4 ? mixed : gguf_bits(bitwidth);
  const double bits = query.file_bits.value_or(made);
  return count(linear.parameters()) * bits / 8;
}

// The embedding is looked up in the host's memory.
double gguf_head_bytes(const ModelShape& model, StagePlace place, const MemoryQuery& query) {
  if (!is_last(place)) return 0;
  const std::int32_t bitwidth =
      query.mxfp4_experts && query.head_bitwidth == 4 ? 8 : query.head_bitwidth;
  return count(model.final_other_parameters) * kFp32Bytes +
         count(model.lm_head_parameters) * gguf_head_bits(bitwidth) / 8;
}

// LLM-PQ section 4.1: (2 vocab d_t + d_p h + 2 h d_t where d_t differs from h) in fp16. The
// published code adds one norm of 2 h parameters to 2048 positions; OPT's checkpoints hold 2050
// rows, the same number of bytes, so the norm is added only where no position table is.
double llm_pq_embedding_bytes(const ModelShape& model) {
  const double hidden = count(model.hidden_size);
  const double token = count(model.token_embedding_parameters);
  const double width = model.vocab_size > 0 ? token / count(model.vocab_size) : hidden;
  const double projections = width == hidden ? 0 : 2 * hidden * width;
  const double positions = model.position_embedding_parameters > 0
                               ? count(model.position_embedding_parameters)
                               : 2 * hidden;
  return (2 * token + positions + projections) * kFp16Bytes;
}

// Published estimate per sequence of one prefill pass, every operator's temporary at once:
// norms 2+2, Q K V and projection 8, softmax 4 and batched products 2 (charged per hidden unit),
// FC output 2 bytes per token and hidden unit; activation and FC input 2+2 per FFN unit; scores 2
// per token pair. The embedding's estimate, s (3 h + 2 d_t), competes with it.
double llm_pq_prefill_bytes(const ModelShape& model, const Workload& workload) {
  const double tokens = prefill_tokens(workload);
  const double pairs = tokens * count(workload.max_prompt_tokens);
  const double hidden = count(model.hidden_size);
  const double layer = 20 * tokens * hidden + 4 * tokens * count(model.ffn_size) + 2 * pairs;
  const double width = model.vocab_size > 0
                           ? count(model.token_embedding_parameters) / count(model.vocab_size)
                           : hidden;
  return std::max(layer, tokens * (3 * hidden + 2 * width));
}

// Published estimate per sequence of one decode step; its last term is the copy of one layer's KV
// cache that torch.cat makes.
double llm_pq_decode_bytes(const ModelShape& model, const Workload& workload) {
  const double context = longest_context(workload);
  const double hidden = count(model.hidden_size);
  return 16 * hidden + 4 * count(model.ffn_size) + 6 * context + 4 * context * hidden;
}

double rotary_bytes(const ModelShape& model) {
  if (model.position_embedding_parameters > 0 || model.family == "bloom") return 0;
  for (const LayerShape& layer : model.layer_classes) {
    if (!layer.attends()) continue;
    return count(model.max_context_tokens) * count(layer.rope_width.value_or(layer.head_dim)) *
           kFp16Bytes;
  }
  return 0;
}

bool is_attention_matrix(const LinearShape& linear) {
  if (is_of_state(linear)) return true;
  const std::string_view name(linear.name);
  const std::string_view leaf = name.substr(name.rfind('.') + 1);
  for (const std::string_view known :
       {"q_proj", "k_proj", "v_proj", "qkv_proj", "query_key_value", "c_attn", "o_proj", "out_proj",
        "dense", "q_a_proj", "q_b_proj", "kv_a_proj", "kv_b_proj"}) {
    if (leaf == known) return true;
  }
  return name.find("attn") != std::string_view::npos ||
         name.find("attention") != std::string_view::npos;
}

// Values per token between the FFN's matrices: up (and gate) outputs of every active expert, and
// for experts their outputs before they are summed.
double ffn_width(const ModelShape& model, const LayerShape& layer) {
  double width = 0;
  for (const LinearShape& linear : layer.linears) {
    const bool into_ffn = linear.in_features == model.hidden_size && !is_attention_matrix(linear);
    if (into_ffn) width += count(linear.out_features) * count(linear.num_active);
    const bool out_of_experts = !into_ffn && is_expert(linear);
    if (out_of_experts) width += count(linear.out_features) * count(linear.num_active);
  }
  return std::max(width, count(model.ffn_size));
}

// fp32 running maximum and sum per row and head; while decoding, the partial outputs of each split
// of the context as well. No tokens x tokens matrix: the kernel keeps scores on chip.
double attention_workspace_bytes(const LayerShape& layer, double rows, double split_context) {
  const double heads = count(layer.num_heads);
  if (split_context <= 0) return rows * heads * 2 * kFp32Bytes;
  const double splits = std::clamp(split_context / kContextTokensPerSplit, 1.0, kMaxSplits);
  const double width = count(layer.latent_width.value_or(layer.head_dim));
  return rows * heads * splits * (width + 2) * kFp32Bytes;
}

double attention_bytes(const LayerShape& layer, double rows, double split_context,
                       double number_bytes) {
  const double query_width = count(layer.num_heads) * count(layer.head_dim);
  double state_width = 0;  // what the matrices of a state put out
  for (const LinearShape& linear : layer.linears) {
    if (is_of_state(linear)) state_width += count(linear.out_features);
  }
  return rows * (2 * query_width + 2 * kv_width(layer) + state_width) * number_bytes +
         attention_workspace_bytes(layer, rows, split_context);
}

// Beside the residual stream: the normed input with either Q, K, V, attention output and workspace,
// or the FFN intermediate. Attention and FFN follow each other, so the larger counts.
double layer_activation_bytes(const ModelShape& model, const LayerShape& layer, double rows,
                              double split_context, double number_bytes) {
  const double hidden = count(model.hidden_size);
  const double attention = attention_bytes(layer, rows, split_context, number_bytes);
  const double ffn = rows * ffn_width(model, layer) * number_bytes;
  return rows * hidden * number_bytes + std::max(attention, ffn);
}

// Its scheduler lays out one step of the most tokens: the residual stream and its normed copy with
// what the widest part of a layer makes in FP32, or the logits of every token.
double llama_cpp_step_bytes(const ModelShape& model, StagePlace place) {
  double width = 0;
  for (const LayerShape& layer : model.layer_classes) {
    width = std::max({width, ffn_width(model, layer),
                      2 * count(layer.num_heads) * count(layer.head_dim) + 2 * kv_width(layer)});
  }
  width += 2 * count(model.hidden_size);
  if (is_last(place)) width = std::max(width, count(model.hidden_size + model.vocab_size));
  return kLlamaCppStepTokens * width * kFp32Bytes;
}

// `rows`: new tokens of the micro-batch in one pass; `sequences`: its size.
double physical_activation_bytes(const ModelShape& model, double rows, double sequences,
                                 double split_context, StagePlace place, double number_bytes) {
  double work = 0;
  for (const LayerShape& layer : model.layer_classes) {
    work = std::max(work, layer_activation_bytes(model, layer, rows, split_context, number_bytes));
  }
  const double hidden = count(model.hidden_size);
  if (is_last(place)) {
    // Sampling starts when the layers are done: the last position's norm and its fp32 logits.
    work =
        std::max(work, sequences * (hidden * number_bytes + count(model.vocab_size) * kFp32Bytes));
  }
  const double residual = rows * hidden * number_bytes;
  // One buffer moves while the other is computed from or into.
  const double num_buffers = (is_first(place) ? 0 : 2) + (is_last(place) ? 0 : 2);
  const double token_ids = is_first(place) ? rows * 8 : 0;
  return residual + work + num_buffers * residual + token_ids;
}

}  // namespace

const RuntimeMemory& runtime_memory(const MemoryQuery& query) {
  if (query.preset == MemoryPreset::llm_pq) return kLlmPq;
  if (query.preset == MemoryPreset::physical) return kPhysical;
  if (query.preset == MemoryPreset::tessera) return kTessera;
  if (query.preset == MemoryPreset::llama_cpp) return kLlamaCpp;
  const auto later = [&](const VllmMemory& row) { return row.since > query.version; };
  return std::prev(std::find_if(std::begin(kVllm), std::end(kVllm), later))->memory;
}

bool has_mxfp4_experts(const ModelShape& model) { return model.family == "gpt_oss"; }

MemoryQuery of_checkpoint(MemoryQuery query, const ModelShape& model, const KernelSet& kernels) {
  query.mxfp4_experts = has_mxfp4_experts(model);
  for (const KernelRule& rule : kernels.rules) {
    query.mxfp4_hidden_multiple = std::max(query.mxfp4_hidden_multiple, rule.mxfp4_hidden_multiple);
    query.mxfp4_inner_multiple = std::max(query.mxfp4_inner_multiple, rule.mxfp4_inner_multiple);
  }
  query.kept = model.checkpoint_kept;
  if (model.checkpoint_format.value_or("").starts_with("gguf"))
    query.file_bits = model.checkpoint_bits;
  return query;
}

double layer_weight_bytes(const LayerShape& layer, double bitwidth, const MemoryQuery& query) {
  check_range(bitwidth, 1, 32, "bitwidth");
  check_range(query.group_size, 0, 1e9, "group_size");
  double bytes = query.preset == MemoryPreset::llm_pq ? llm_pq_norm_bytes(layer)
                                                      : count(layer.other_parameters) * kFp16Bytes;
  for (const LinearShape& linear : layer.linears) {
    if (query.preset == MemoryPreset::llama_cpp) {
      bytes += gguf_bytes(linear, static_cast<std::int32_t>(bitwidth), query);
      continue;
    }
    if (query.mxfp4_experts && bitwidth == 4) {
      bytes += mxfp4_bytes(linear, query);
      continue;
    }
    double quantised = count(linear.parameters()) * bitwidth / 8;
    if (query.preset != MemoryPreset::llm_pq && bitwidth < 16) {
      quantised += quantization_metadata_bytes(linear, bitwidth, query.group_size);
    }
    const double kept = bitwidth < 16 ? kept_share(linear, query) : 0;
    bytes += (1 - kept) * quantised + kept * count(linear.parameters()) * kFp16Bytes;
  }
  return bytes;
}

double layer_kv_bytes(const LayerShape& layer, const Workload& workload, const MemoryQuery& query) {
  return layer_kv_bytes(layer, count(workload.batch_size), longest_context(workload), query);
}

double layer_kv_bytes(const LayerShape& layer, double sequences, double tokens,
                      const MemoryQuery& query) {
  check_range(query.kv_bitwidth, kMinKvBitwidth, kMaxKvBitwidth, "kv_bitwidth");
  const double all = tokens;
  if (query.preset != MemoryPreset::llm_pq && layer.attention_window) {
    tokens = std::min(tokens, count(*layer.attention_window));
  }
  const double state = layer.state ? sequences * layer.state->bytes() : 0;
  if (kv_values_per_token(layer) == 0) return state;
  double bitwidth = query.kv_bitwidth;
  if (query.preset == MemoryPreset::tessera) {
    bitwidth = query.kv_bitwidth == 16 ? 32 : query.kv_bitwidth + 32 / count(layer.head_dim);
  }
  if (query.preset == MemoryPreset::llama_cpp && query.kv_bitwidth < 16) {
    bitwidth += kFp16Bytes * 8 / 32;  // Q8_0 and Q4_0 have one scale for 32 values
  }
  return state + kv_cache_bytes(layer, sequences, tokens, bitwidth) +
         kv_entry_bytes(layer, sequences, all, bitwidth);
}

double embedding_bytes(const ModelShape& model, StagePlace place, const MemoryQuery& query) {
  if (query.preset == MemoryPreset::llm_pq)
    return is_first(place) ? llm_pq_embedding_bytes(model) : 0;
  if (query.preset == MemoryPreset::llama_cpp) return gguf_head_bytes(model, place, query);
  const bool in_file = query.preset == MemoryPreset::tessera;
  double parameters = 0;
  if (is_first(place) && !in_file) {
    parameters += count(model.token_embedding_parameters) +
                  count(model.position_embedding_parameters) +
                  count(model.layer_embedding_parameters) + count(model.embedding_other_parameters);
  }
  if (is_last(place)) {
    parameters += count(model.final_other_parameters) + count(model.lm_head_parameters);
    const bool shared = is_first(place) && model.tied_embeddings && !in_file;
    if (shared) {
      parameters -= count(std::min(model.lm_head_parameters, model.token_embedding_parameters));
    }
  }
  // Servers build encoders of pictures and sound on every rank, most of them whole; our own runtime
  // and a GGUF file's have none.
  if (!in_file) parameters += count(model.tower_parameters());
  const double rotary = runtime_memory(query).rotary_tables ? rotary_bytes(model) : 0;
  return parameters * kFp16Bytes + rotary;
}

double prefill_activation_bytes(const ModelShape& model, const Workload& workload,
                                std::int64_t micro_batch_size, StagePlace place,
                                const MemoryQuery& query) {
  const double sequences = count(micro_batch_size);
  check_range(sequences, 1, 1e9, "prefill_micro_batch_size");
  if (query.preset == MemoryPreset::llm_pq) {
    return is_first(place) ? sequences * llm_pq_prefill_bytes(model, workload) : 0;
  }
  if (query.preset == MemoryPreset::llama_cpp) return llama_cpp_step_bytes(model, place);
  const double rows = sequences * prefill_tokens(workload);
  return physical_activation_bytes(model, rows, sequences, 0, place,
                                   activation_bytes(query.preset));
}

double decode_activation_bytes(const ModelShape& model, const Workload& workload,
                               std::int64_t micro_batch_size, StagePlace place,
                               const MemoryQuery& query) {
  const double sequences = count(micro_batch_size);
  check_range(sequences, 1, 1e9, "decode_micro_batch_size");
  if (query.preset == MemoryPreset::llm_pq) {
    // Whole batch on every device, micro-batches or not; the published plans leave exactly this.
    const double batch = std::max(sequences, count(workload.batch_size));
    return batch * llm_pq_decode_bytes(model, workload);
  }
  if (query.preset == MemoryPreset::llama_cpp) return llama_cpp_step_bytes(model, place);
  return physical_activation_bytes(model, sequences, sequences, longest_context(workload), place,
                                   activation_bytes(query.preset));
}

double attention_buffer_bytes(const LayerShape& layer, const Workload& workload,
                              std::int64_t prefill_micro_batch_size,
                              std::int64_t decode_micro_batch_size, const MemoryQuery& query) {
  const double number_bytes = activation_bytes(query.preset);
  const double rows = count(prefill_micro_batch_size) * prefill_tokens(workload);
  return std::max(attention_bytes(layer, rows, 0, number_bytes),
                  attention_bytes(layer, count(decode_micro_batch_size), longest_context(workload),
                                  number_bytes));
}

double step_activation_bytes(const ModelShape& whole, const ModelShape& member,
                             std::int64_t max_tokens, std::int64_t max_sequences, StagePlace place,
                             const MemoryQuery& query) {
  Workload step;
  step.batch_size = 1;
  step.max_prompt_tokens = max_tokens;
  step.prompt_tokens = count(max_tokens);
  const double layers = prefill_activation_bytes(member, step, 1, place, query);
  if (!is_last(place)) return layers;
  const double rows = count(std::min(max_sequences, max_tokens));
  const double hidden_bytes = count(max_tokens) * count(whole.hidden_size) * kFp16Bytes;
  return std::max(
      layers, hidden_bytes + rows * count(whole.vocab_size) * runtime_memory(query).logit_bytes);
}

MemoryAccount empty_account(const Device& device, const MemoryQuery& query, std::int64_t degree,
                            std::optional<double> utilisation, std::int64_t num_layers) {
  const RuntimeMemory& runtime = runtime_memory(query);
  MemoryAccount account;
  account.capacity_bytes = device.memory_bytes;
  account.usable_bytes = utilisation.value_or(runtime.utilisation) *
                         (device.memory_bytes - hidden_bytes(device, runtime));
  account.reserve_bytes = (degree > 1 ? runtime.group_context_bytes : runtime.context_bytes) +
                          runtime.slack_ratio * device.memory_bytes + runtime.graph_bytes +
                          count(num_layers) * runtime.layer_graph_bytes;
  const bool by_switch = device.nvlink_bytes_per_s && device.compute_capability >= kHopper;
  if (degree > 1 && by_switch) account.reserve_bytes += runtime.switch_context_bytes;
  return account;
}

}  // namespace tessera::cost
