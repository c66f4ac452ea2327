// The sizes that descendants of Llama share, and Llama 4.
#include "family.h"

namespace tessera::hf {

void read_llama_sizes(Config& config, const LlamaDefaults& defaults, ModelShape& model) {
  model.num_layers = config.size({"num_hidden_layers", "num_layers", "n_layer", "n_layers"},
                                 kLayersRange, defaults.num_layers);
  model.hidden_size = config.size({"hidden_size", "n_embd", "d_model"}, kSizeRange);
  model.num_heads = config.size({"num_attention_heads", "num_heads", "n_head", "n_heads"},
                                kHeadsRange, defaults.num_heads);
  // All these classes read an explicit null as "as many as heads", whatever their default is.
  const std::int64_t absent_kv_heads = config.written("num_key_value_heads")
                                           ? model.num_heads
                                           : defaults.num_kv_heads.value_or(model.num_heads);
  model.num_kv_heads = config.size({"num_key_value_heads"}, {1, model.num_heads}, absent_kv_heads);
  check_kv_heads(config, model);
  auto head_dim = config.optional_size({"head_dim", "kv_channels"}, kHeadDimRange);
  if (!head_dim) head_dim = defaults.head_dim;
  if (head_dim) {
    model.head_dim = *head_dim;
  } else {
    split_hidden_size(config, model);
  }
  if (defaults.listed_ffn_sizes) {
    model.ffn_size = defaults.ffn_size.value_or(0);
  } else {
    const std::optional<std::int64_t> by_ratio =
        defaults.ffn_ratio ? std::optional(*defaults.ffn_ratio * model.hidden_size) : std::nullopt;
    model.ffn_size = config.size({"intermediate_size", "n_inner"}, kSizeRange,
                                 by_ratio ? by_ratio : defaults.ffn_size);
  }
  model.vocab_size = config.size({"vocab_size"}, kVocabRange, defaults.vocab_size);
  model.max_context_tokens = config.size({"max_position_embeddings", "n_positions", "max_seq_len"},
                                         kTokensRange, defaults.max_context_tokens);
  if (defaults.stretches_context)
    model.max_context_tokens = stretched_context(config, model.max_context_tokens);
  config.check_activation({"hidden_act", "hidden_activation", "activation_function"});
  set_embeddings(model, model.hidden_size,
                 config.flag("tie_word_embeddings", defaults.tied_embeddings));
  model.final_other_parameters = model.hidden_size;
}

LayerDesign llama_design(const ModelShape& model) {
  LayerDesign design = design_of(model);
  design.gated_ffn = true;
  design.norm_parameters = 2 * model.hidden_size;
  return design;
}

// Llama4TextConfig defaults: 40 heads, 8 key-value heads of 128, 131072 positions, untied, no
// biases, norms over heads without parameters. Every interleave_moe_layer_step-th layer has experts
// and one that every token visits, the others a wider network; three layers of four see the 8192
// tokens of their chunk.
void read_llama4(Config& config, ModelShape& model) {
  read_llama_sizes(config,
                   {.max_context_tokens = 131072,
                    .num_kv_heads = 8,
                    .head_dim = 128,
                    .num_heads = 40,
                    .vocab_size = 202048},
                   model);
  LayerDesign sparse = llama_design(model);
  sparse.qkv_bias = sparse.output_bias = config.flag("attention_bias", false);
  LayerDesign dense = sparse;
  dense.ffn_size = config.size({"intermediate_size_mlp"}, kSizeRange, 16384);
  sparse.num_experts = config.size({"num_local_experts"}, kExpertsRange, 16);
  sparse.num_active_experts = config.size({"num_experts_per_tok"}, {1, sparse.num_experts}, 1);
  sparse.shared_ffn_size = sparse.ffn_size;
  const std::int64_t step = config.size({"interleave_moe_layer_step"}, kLayersRange, 1);
  auto chunk = config.optional_size({"attention_chunk_size"}, kTokensRange);
  if (!config.written("attention_chunk_size")) chunk = 8192;
  constexpr std::int64_t kFullPeriod = 4;  // layers without rotary positions, which see everything
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    LayerDesign& design = (i + 1) % step == 0 ? sparse : dense;
    design.attention_window = (i + 1) % kFullPeriod == 0 ? std::nullopt : chunk;
    add_layer(model, make_layer(design));
  }
}

}  // namespace tessera::hf
