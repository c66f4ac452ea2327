#pragma once

#include <string>
#include <vector>

#include "tessera/core/model_shape.h"

namespace tessera::test {

/// Shapes written down by hand, so that tests of costs do not depend on the reader of config files.
inline ModelShape with_layers(ModelShape model, std::int64_t num_layers, LayerShape layer) {
  model.num_layers = num_layers;
  model.num_heads = layer.num_heads;
  model.num_kv_heads = layer.num_kv_heads;
  model.head_dim = layer.head_dim;
  model.layer_classes = {std::move(layer)};
  model.layer_class.assign(static_cast<std::size_t>(num_layers), 0);
  model.source = "tests/support/shapes.h";
  return model;
}

inline ModelShape opt(const std::string& name, std::int64_t num_layers, std::int64_t hidden,
                      std::int64_t num_heads) {
  ModelShape model;
  model.name = name;
  model.family = "opt";
  model.hidden_size = hidden;
  model.ffn_size = 4 * hidden;
  model.vocab_size = 50272;
  model.max_context_tokens = 2048;
  model.token_embedding_parameters = 50272 * hidden;
  model.position_embedding_parameters = 2050 * hidden;
  model.lm_head_parameters = 50272 * hidden;
  model.tied_embeddings = true;
  model.final_other_parameters = 2 * hidden;
  LayerShape layer;
  for (const char* matrix : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
    layer.linears.push_back({matrix, hidden, hidden, 1, 1});
  }
  layer.linears.push_back({"fc1", hidden, 4 * hidden, 1, 1});
  layer.linears.push_back({"fc2", 4 * hidden, hidden, 1, 1});
  layer.num_heads = layer.num_kv_heads = num_heads;
  layer.head_dim = hidden / num_heads;
  layer.other_parameters = 13 * hidden;  // two norms, four + five biases of h
  return with_layers(std::move(model), num_layers, std::move(layer));
}

inline ModelShape opt_13b() { return opt("opt-13b", 40, 5120, 40); }
inline ModelShape opt_30b() { return opt("opt-30b", 48, 7168, 56); }
inline ModelShape opt_66b() { return opt("opt-66b", 64, 9216, 72); }

/// The first layers of DeepSeek-V3: latent attention, a dense gated FFN.
inline LayerShape latent_layer() {
  LayerShape layer;
  layer.linears = {{"q_a_proj", 7168, 1536},    {"q_b_proj", 1536, 128 * 192},
                   {"kv_a_proj", 7168, 576},    {"kv_b_proj", 512, 128 * 256},
                   {"o_proj", 128 * 128, 7168}, {"gate_proj", 7168, 18432},
                   {"up_proj", 7168, 18432},    {"down_proj", 18432, 7168}};
  layer.num_heads = layer.num_kv_heads = 128;
  layer.head_dim = 192;
  layer.latent_width = 512;
  layer.rope_width = 64;
  layer.other_parameters = 2 * 7168 + 1536 + 512;
  return layer;
}

/// Llama's layer: grouped queries, gated FFN; `num_copies` > 1 makes it a mixture of experts.
inline LayerShape gated_layer(std::int64_t hidden, std::int64_t ffn, std::int64_t num_heads,
                              std::int64_t num_kv_heads, std::int64_t head_dim,
                              std::int64_t num_copies = 1, std::int64_t num_active = 1) {
  LayerShape layer;
  layer.linears = {{"q_proj", hidden, num_heads * head_dim, 1, 1},
                   {"k_proj", hidden, num_kv_heads * head_dim, 1, 1},
                   {"v_proj", hidden, num_kv_heads * head_dim, 1, 1},
                   {"o_proj", num_heads * head_dim, hidden, 1, 1},
                   {"gate_proj", hidden, ffn, num_copies, num_active},
                   {"up_proj", hidden, ffn, num_copies, num_active},
                   {"down_proj", ffn, hidden, num_copies, num_active}};
  layer.num_heads = num_heads;
  layer.num_kv_heads = num_kv_heads;
  layer.head_dim = head_dim;
  layer.other_parameters = 2 * hidden + (num_copies > 1 ? hidden * num_copies : 0);
  return layer;
}

inline ModelShape untied(const std::string& name, std::int64_t num_layers, std::int64_t hidden,
                         std::int64_t ffn, std::int64_t vocab, LayerShape layer) {
  ModelShape model;
  model.name = name;
  model.family = "llama";
  model.hidden_size = hidden;
  model.ffn_size = ffn;
  model.vocab_size = vocab;
  model.max_context_tokens = 8192;
  model.token_embedding_parameters = vocab * hidden;
  model.lm_head_parameters = vocab * hidden;
  model.tied_embeddings = false;
  model.final_other_parameters = hidden;
  return with_layers(std::move(model), num_layers, std::move(layer));
}

inline ModelShape llama_3_8b() {
  return untied("llama-3-8b", 32, 4096, 14336, 128256, gated_layer(4096, 14336, 32, 8, 128));
}

inline ModelShape mixtral_8x7b() {
  return untied("mixtral-8x7b", 32, 4096, 14336, 32000, gated_layer(4096, 14336, 32, 8, 128, 8, 2));
}

/// Mistral 7B v0.1: every layer attends to the last 4096 tokens.
inline ModelShape mistral_7b_windowed() {
  LayerShape layer = gated_layer(4096, 14336, 32, 8, 128);
  layer.attention_window = 4096;
  return untied("mistral-7b-v0.1", 32, 4096, 14336, 32000, std::move(layer));
}

inline std::vector<ModelShape> all_shapes() {
  return {opt_13b(), opt_30b(), llama_3_8b(), mixtral_8x7b(), mistral_7b_windowed()};
}

}  // namespace tessera::test
