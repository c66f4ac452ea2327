// OPT and BLOOM: ungated, biases everywhere, LayerNorm (a weight and a bias per feature).
#include <fmt/format.h>

#include "family.h"

namespace tessera::hf {

// OPTConfig defaults: 2048 positions, word_embed_proj_dim = hidden_size, norms before the blocks,
// biases, norms with parameters, tied.
void read_opt(Config& config, ModelShape& model) {
  model.num_layers = config.size({"num_hidden_layers"}, kLayersRange);
  model.hidden_size = config.size({"hidden_size"}, kSizeRange);
  model.num_heads = config.size({"num_attention_heads"}, kHeadsRange);
  model.num_kv_heads = model.num_heads;
  split_hidden_size(config, model);
  model.ffn_size = config.size({"ffn_dim"}, kSizeRange);
  model.vocab_size = config.size({"vocab_size"}, kVocabRange);
  model.max_context_tokens = config.size({"max_position_embeddings"}, kTokensRange, 2048);
  config.check_activation({"activation_function"});

  const std::int64_t hidden = model.hidden_size;
  const std::int64_t width = config.size({"word_embed_proj_dim"}, kSizeRange, hidden);
  set_embeddings(model, width, config.flag("tie_word_embeddings", true));
  // The table starts with two rows that no token uses, a habit kept from fairseq.
  model.position_embedding_parameters = (model.max_context_tokens + 2) * hidden;
  if (width != hidden) {
    model.embedding_other_parameters = width * hidden;
    model.final_other_parameters = hidden * width;
  }

  const bool bias = config.flag("enable_bias", true);
  const std::int64_t norm = config.flag("layer_norm_elementwise_affine", true) ? 2 * hidden : 0;
  // OPT-350m normalises after each block, so nothing is left for a final norm to do.
  if (config.flag("do_layer_norm_before", true) && !config.flag("_remove_final_layer_norm", false))
    model.final_other_parameters += norm;
  LayerDesign design = design_of(model);
  design.qkv_bias = design.output_bias = design.ffn_bias = bias;
  design.norm_parameters = 2 * norm;
  add_layers(model, make_layer(design));
}

// BloomConfig: the feed-forward network is always 4 hidden sizes wide (n_inner is written by old
// files and read by nobody); tied by default. ALiBi sets no limit to the context; seq_length, which
// many files leave out, is the length of training, 2048 for every BLOOM (Scao et al., 2022).
void read_bloom(Config& config, ModelShape& model) {
  model.num_layers = config.size({"n_layer", "num_hidden_layers"}, kLayersRange);
  model.hidden_size = config.size({"hidden_size", "n_embed"}, kSizeRange);
  model.num_heads = config.size({"n_head", "num_attention_heads"}, kHeadsRange);
  model.num_kv_heads = model.num_heads;
  split_hidden_size(config, model);
  model.ffn_size = 4 * model.hidden_size;
  const auto inner = config.optional_size({"n_inner"}, kSizeRange);
  if (inner && *inner != model.ffn_size) {
    config.fail("n_inner", fmt::format("{} is not 4 x hidden_size = {}, the only width of bloom",
                                       *inner, model.ffn_size));
  }
  model.vocab_size = config.size({"vocab_size"}, kVocabRange);
  model.max_context_tokens =
      config.size({"seq_length", "max_position_embeddings"}, kTokensRange, 2048);

  const std::int64_t norm = 2 * model.hidden_size;
  set_embeddings(model, model.hidden_size, config.flag("tie_word_embeddings", true));
  model.embedding_other_parameters = norm;
  model.final_other_parameters = norm;
  LayerDesign design = design_of(model);
  design.qkv_bias = design.output_bias = design.ffn_bias = true;
  design.norm_parameters = 2 * norm;
  add_layers(model, make_layer(design));
}

}  // namespace tessera::hf
