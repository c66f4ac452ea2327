// GPT-2, GPT-J and Falcon: ungated, LayerNorm, and each its own idea of where a bias belongs.
#include <fmt/format.h>

#include "family.h"

namespace tessera::hf {
namespace {

// GPT2Config and GPTJConfig share their keys; n_inner null means 4 hidden sizes.
void read_gpt_sizes(Config& config, std::int64_t default_positions, ModelShape& model) {
  model.num_layers = config.size({"n_layer", "num_hidden_layers"}, kLayersRange);
  model.hidden_size = config.size({"n_embd", "hidden_size"}, kSizeRange);
  model.num_heads = config.size({"n_head", "num_attention_heads"}, kHeadsRange);
  model.num_kv_heads = model.num_heads;
  split_hidden_size(config, model);
  model.ffn_size = config.size({"n_inner"}, kSizeRange, 4 * model.hidden_size);
  model.vocab_size = config.size({"vocab_size"}, kVocabRange);
  model.max_context_tokens =
      config.size({"n_positions", "max_position_embeddings"}, kTokensRange, default_positions);
  config.check_activation({"activation_function"});
  model.final_other_parameters = 2 * model.hidden_size;
}

}  // namespace

// GPT2Config defaults: 1024 positions, tied.
void read_gpt2(Config& config, ModelShape& model) {
  if (config.flag("add_cross_attention", false)) {
    config.fail("add_cross_attention", "half of an encoder-decoder; only false is understood",
                ErrorCode::unsupported);
  }
  read_gpt_sizes(config, 1024, model);
  set_embeddings(model, model.hidden_size, config.flag("tie_word_embeddings", true));
  model.position_embedding_parameters = model.max_context_tokens * model.hidden_size;
  LayerDesign design = design_of(model);
  design.qkv_bias = design.output_bias = design.ffn_bias = true;
  design.norm_parameters = 4 * model.hidden_size;
  add_layers(model, make_layer(design));
}

// GPTJConfig defaults: 2048 positions, untied. Attention and feed-forward network share one norm;
// only the latter has biases, and so has the LM head.
void read_gptj(Config& config, ModelShape& model) {
  read_gpt_sizes(config, 2048, model);
  set_embeddings(model, model.hidden_size, config.flag("tie_word_embeddings", false));
  model.lm_head_parameters += model.vocab_size;
  LayerDesign design = design_of(model);
  design.ffn_bias = true;
  design.norm_parameters = 2 * model.hidden_size;
  add_layers(model, make_layer(design));
}

// FalconConfig defaults: multi_query and parallel_attn true, new_decoder_architecture, bias and
// alibi false, feed-forward network 4 hidden sizes wide, 2048 positions, tied.
void read_falcon(Config& config, ModelShape& model) {
  model.num_layers = config.size({"num_hidden_layers", "n_layer"}, kLayersRange);
  model.hidden_size = config.size({"hidden_size"}, kSizeRange);
  model.num_heads = config.size({"num_attention_heads", "n_head"}, kHeadsRange);
  split_hidden_size(config, model);
  const bool new_architecture = config.flag("new_decoder_architecture", false);
  const bool multi_query = config.flag("multi_query", true);
  // num_kv_heads counts only in the new architecture; before it there was one or all.
  const std::int64_t written =
      config.size({"num_kv_heads", "n_head_kv"}, {1, model.num_heads}, model.num_heads);
  model.num_kv_heads = new_architecture ? written : multi_query ? 1 : model.num_heads;
  check_kv_heads(config, model);
  model.ffn_size = config.size({"ffn_hidden_size"}, kSizeRange, 4 * model.hidden_size);
  model.vocab_size = config.size({"vocab_size"}, kVocabRange);
  model.max_context_tokens = config.size({"max_position_embeddings"}, kTokensRange, 2048);
  config.check_activation({"activation"});
  config.flag("alibi", false);  // positions without parameters either way; checked for its type

  set_embeddings(model, model.hidden_size, config.flag("tie_word_embeddings", true));
  const std::int64_t norm = 2 * model.hidden_size;
  model.final_other_parameters = norm;
  // In parallel, attention and feed-forward network share a norm, except in the new architecture.
  const std::int64_t num_norms =
      config.flag("parallel_attn", true)
          ? config.size({"num_ln_in_parallel_attn"}, {1, 2}, new_architecture ? 2 : 1)
          : 2;
  LayerDesign design = design_of(model);
  design.qkv_bias = design.output_bias = design.ffn_bias = config.flag("bias", false);
  design.norm_parameters = num_norms * norm;
  add_layers(model, make_layer(design));
}

}  // namespace tessera::hf
