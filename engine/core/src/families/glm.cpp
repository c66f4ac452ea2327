// GLM-4.5 and 4.6: experts with shared ones beside them, the first layers dense.
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

}  // namespace tessera::hf
