// GPT-2, GPT-J, GPT-Neo, MPT and Falcon: ungated, LayerNorm, and each its own idea of where a bias
// belongs.
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

// GPTNeoConfig defaults: 2048 positions, tied, a window of 256 tokens in the layers that
// attention_layers calls local. Queries, keys and values have no biases, everything else has.
void read_gpt_neo(Config& config, ModelShape& model) {
  read_llama_sizes(config, {.max_context_tokens = 2048, .tied_embeddings = true, .ffn_ratio = 4},
                   model);
  model.position_embedding_parameters = model.max_context_tokens * model.hidden_size;
  model.final_other_parameters = 2 * model.hidden_size;
  LayerDesign design = design_of(model);
  design.output_bias = design.ffn_bias = true;
  design.norm_parameters = 4 * model.hidden_size;
  const std::int64_t window = config.size({"window_size"}, kTokensRange, 256);
  const Json* kinds = config.find("attention_layers");
  if (kinds != nullptr &&
      (!kinds->is_array() || kinds->size() != static_cast<std::size_t>(model.num_layers))) {
    config.fail("attention_layers",
                fmt::format("an array of {} names belongs here, one per layer", model.num_layers));
  }
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    // By default every second one, from the second on.
    bool local = i % 2 == 1;
    if (kinds != nullptr) local = (*kinds)[static_cast<std::size_t>(i)] == "local";
    design.attention_window = local ? std::optional(window) : std::nullopt;
    add_layer(model, make_layer(design));
  }
}

// MPT (its own code): a width of expansion_ratio hidden sizes, tied, and with no_bias, which all
// published files have, no bias in any matrix or norm. Positions are ALiBi's or learned.
void read_mpt(Config& config, ModelShape& model) {
  const std::int64_t ratio = config.size({"expansion_ratio"}, {1, 64}, 4);
  read_llama_sizes(
      config, {.max_context_tokens = 2048, .tied_embeddings = true, .ffn_ratio = ratio}, model);
  bool alibi = true;
  if (const Json* attention = config.find("attn_config")) {
    Config inner(*attention, config.path() + ": attn_config");
    model.num_kv_heads = inner.size({"kv_n_heads"}, {1, model.num_heads}, model.num_kv_heads);
    check_kv_heads(config, model);
    alibi = inner.flag("alibi", false);
    if (inner.flag("qk_ln", false))
      config.fail("attn_config", "qk_ln: only false is understood", ErrorCode::unsupported);
  }
  const bool biases = !config.flag("no_bias", true);
  const std::int64_t norm = (biases ? 2 : 1) * model.hidden_size;
  if (config.flag("learned_pos_emb", true) && !alibi)
    model.position_embedding_parameters = model.max_context_tokens * model.hidden_size;
  model.final_other_parameters = norm;
  LayerDesign design = design_of(model);
  design.qkv_bias = design.output_bias = design.ffn_bias = biases;
  design.norm_parameters = 2 * norm;
  add_layers(model, make_layer(design));
}

// FalconConfig defaults: multi_query and parallel_attn true, new_decoder_architecture, bias and
// alibi false, feed-forward network 4 hidden sizes wide, 2048 positions, tied.
void read_falcon(Config& config, ModelShape& model) {
  model.num_layers = config.size({"num_hidden_layers", "n_layer"}, kLayersRange);
  model.hidden_size = config.size({"hidden_size"}, kSizeRange);
  model.num_heads = config.size({"num_attention_heads", "n_head"}, kHeadsRange);
  split_hidden_size(config, model);
  // Files of before the rename (RefinedWeb) say it by writing n_head_kv.
  const bool new_architecture =
      config.flag("new_decoder_architecture", config.written("n_head_kv"));
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
