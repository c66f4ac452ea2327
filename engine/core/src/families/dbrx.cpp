// DBRX, whose configuration has parts for attention and for the experts.
#include "family.h"

namespace tessera::hf {

// DbrxConfig defaults: 2048 positions, one key-value head, 4 experts of width 3584 and one of them
// active, untied; LayerNorms without biases.
void read_dbrx(Config& config, ModelShape& model) {
  model.num_layers = config.size({"n_layers", "num_hidden_layers"}, kLayersRange);
  model.hidden_size = config.size({"d_model", "hidden_size"}, kSizeRange);
  model.num_heads = config.size({"n_heads", "num_attention_heads"}, kHeadsRange);
  split_hidden_size(config, model);
  model.vocab_size = config.size({"vocab_size"}, kVocabRange);
  model.max_context_tokens =
      config.size({"max_seq_len", "max_position_embeddings"}, kTokensRange, 2048);
  const auto part = [&](const char* key) {
    const Json* found = config.find(key);
    if (found == nullptr || !found->is_object()) config.fail(key, "an object belongs here");
    return Config(*found, config.path() + ": " + key);
  };
  Config attention = part("attn_config"), experts = part("ffn_config");
  model.num_kv_heads = attention.size({"kv_n_heads"}, {1, model.num_heads}, 1);
  check_kv_heads(config, model);
  model.ffn_size = experts.size({"ffn_hidden_size"}, kSizeRange, 3584);
  set_embeddings(model, model.hidden_size, config.flag("tie_word_embeddings", false));
  model.final_other_parameters = model.hidden_size;

  LayerDesign design = llama_design(model);
  design.num_experts = experts.size({"moe_num_experts"}, kExpertsRange, 4);
  design.num_active_experts = experts.size({"moe_top_k"}, {1, design.num_experts}, 1);
  add_layers(model, make_layer(design));
}

}  // namespace tessera::hf
