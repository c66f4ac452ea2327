// Recurrences of other kinds: RecurrentGemma (Griffin) and RWKV 4.
#include <fmt/format.h>

#include "mixers.h"

namespace tessera::hf {

// RecurrentGemmaConfig defaults: two recurrent blocks and one of attention to 2048 tokens in turn,
// intermediate_size of both halves of the gate, biases everywhere but on queries, keys and values.
void read_recurrent_gemma(Config& config, ModelShape& model) {
  read_llama_sizes(config,
                   {.max_context_tokens = 8192,
                    .tied_embeddings = true,
                    .num_heads = 10,
                    .vocab_size = 256000,
                    .ffn_size = 7680},
                   model);
  if (model.ffn_size % 2 != 0)
    config.fail("intermediate_size", "not even, for two halves of a gate");
  model.ffn_size /= 2;
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t width = config.size({"lru_width"}, kSizeRange, hidden);
  const std::int64_t kernel = config.size({"conv1d_width"}, kKernelRange, 4);
  if (width % model.num_heads != 0) {
    config.fail("lru_width",
                fmt::format("{} does not split evenly over {} heads", width, model.num_heads));
  }
  LayerDesign design = llama_design(model);
  design.qkv_bias = config.flag("attention_bias", false);
  design.output_bias = design.ffn_bias = true;
  design.attention_window = config.size({"attention_window_size"}, kTokensRange, 2048);
  std::vector<std::string> kinds = {"recurrent", "recurrent", "attention"};
  for (const char* key : {"block_types", "_block_types"}) {
    const Json* list = config.find(key);
    if (list == nullptr || !list->is_array() || list->empty()) continue;
    kinds = *config.layer_names(key, static_cast<std::int64_t>(list->size()),
                                {"recurrent", "attention"});
  }
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    LayerShape layer;
    if (kinds[static_cast<std::size_t>(i) % kinds.size()] == "attention") {
      add_attention(design, layer);
    } else {
      const std::int64_t block = width / model.num_heads;
      layer.linears = {{"mamba.in_proj", hidden, 2 * width}, {"mamba.out_proj", width, hidden}};
      // The convolution; gates of two matrices a head, with biases; what forgets.
      layer.other_parameters += width * kernel + width + 2 * width * block + 2 * width + width;
      layer.other_parameters += 2 * width + hidden;  // biases
      layer.state = LayerState{.kind = StateKind::linear_attention,
                               .num_heads = model.num_heads,
                               .recurrent_values = width,
                               .convolution_values = width * (kernel - 1)};
    }
    add_feed_forward(design, layer);
    layer.other_parameters += design.norm_parameters;
    add_layer(model, layer);
  }
}

// RwkvConfig defaults: attention as wide as the hidden size, a network four times as wide, untied.
// Of a sequence a layer keeps sums with their scale, and the token before, twice.
void read_rwkv(Config& config, ModelShape& model) {
  model.num_layers = config.size({"num_hidden_layers"}, kLayersRange);
  model.hidden_size = config.size({"hidden_size"}, kSizeRange);
  model.vocab_size = config.size({"vocab_size"}, kVocabRange);
  model.max_context_tokens = config.size({"context_length"}, kTokensRange, 1024);
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t width = config.size({"attention_hidden_size"}, kSizeRange, hidden);
  model.ffn_size = config.size({"intermediate_size"}, kSizeRange, 4 * hidden);
  set_embeddings(model, hidden, config.flag("tie_word_embeddings", false));
  model.embedding_other_parameters = 2 * hidden;  // a norm before the first layer
  model.final_other_parameters = 2 * hidden;
  LayerShape layer;
  layer.linears = {{"linear_attn.in_proj", hidden, 3 * width},
                   {"linear_attn.out_proj", width, hidden},
                   {"receptance_proj", hidden, hidden},
                   {"up_proj", hidden, model.ffn_size},
                   {"down_proj", model.ffn_size, hidden}};
  // Two norms, what decays and what the current token adds, shares of the token before.
  layer.other_parameters = 4 * hidden + 2 * width + 5 * hidden;
  layer.state = LayerState{.kind = StateKind::linear_attention,
                           .num_heads = width,
                           .recurrent_values = 3 * width,
                           .convolution_values = 2 * hidden};
  add_layers(model, layer);
}

}  // namespace tessera::hf
