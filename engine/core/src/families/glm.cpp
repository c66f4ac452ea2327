// ChatGLM and GLM-4 as their own code has them, and GLM-4.5 and 4.6: experts with shared ones
// beside them, the first layers dense.
#include "family.h"

namespace tessera::hf {

// Glm4MoeConfig defaults: 96 heads, 8 key-value heads, 131072 positions, untied, no biases, no
// norms over heads, one dense layer, one shared expert. The router has a number per expert beside
// its matrix.
void read_glm4_moe(Config& config, ModelShape& model) {
  constexpr SizeRange kSharedExpertsRange{0, 256};
  read_llama_sizes(
      config, {.max_context_tokens = 131072, .num_kv_heads = 8, .head_dim = {}, .num_heads = 96},
      model);
  LayerDesign dense = llama_design(model);
  dense.qkv_bias = config.flag("attention_bias", false);
  dense.qk_norm = config.flag("use_qk_norm", false);
  LayerDesign sparse = dense;
  sparse.ffn_size = model.ffn_size = config.size({"moe_intermediate_size"}, kSizeRange, 1408);
  read_experts(config, {"n_routed_experts"}, sparse);
  sparse.shared_ffn_size =
      sparse.ffn_size * config.size({"n_shared_experts"}, kSharedExpertsRange, 1);
  const std::int64_t num_dense = config.size({"first_k_dense_replace"}, {0, kLayersRange.high}, 1);
  LayerShape sparse_layer = make_layer(sparse);
  sparse_layer.other_parameters += sparse.num_experts;
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    add_layer(model, i < num_dense ? make_layer(dense) : sparse_layer);
  }
}

// ChatGLMConfig of THUDM's configuration_chatglm.py, version 2 on: a gated network, RMS norms
// unless `rmsnorm` is false, biases by two keys, untied.
void read_chatglm(Config& config, ModelShape& model) {
  model.num_layers = config.size({"num_layers", "num_hidden_layers"}, kLayersRange);
  model.hidden_size = config.size({"hidden_size"}, kSizeRange);
  model.num_heads = config.size({"num_attention_heads"}, kHeadsRange);
  model.num_kv_heads = config.flag("multi_query_attention", false)
                           ? config.size({"multi_query_group_num"}, {1, model.num_heads}, 1)
                           : model.num_heads;
  check_kv_heads(config, model);
  model.head_dim = config.size({"kv_channels"}, kHeadDimRange, 128);
  model.ffn_size = config.size({"ffn_hidden_size"}, kSizeRange);
  model.vocab_size = config.size({"padded_vocab_size", "vocab_size"}, kVocabRange);
  model.max_context_tokens = config.size({"seq_length"}, kTokensRange, 2048);
  set_embeddings(model, model.hidden_size, config.flag("tie_word_embeddings", false));
  const std::int64_t norm = model.hidden_size * (config.flag("rmsnorm", true) ? 1 : 2);
  if (config.flag("post_layer_norm", true)) model.final_other_parameters = norm;

  LayerDesign design = llama_design(model);
  design.norm_parameters = 2 * norm;
  const bool biases = config.flag("add_bias_linear", false);
  design.qkv_bias = biases || config.flag("add_qkv_bias", false);
  design.output_bias = design.ffn_bias = biases;
  add_layers(model, make_layer(design));
}

}  // namespace tessera::hf
