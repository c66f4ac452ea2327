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
  config.check_activation({"hidden_act", "hidden_activation", "activation_function"},
                          defaults.gated_activation);
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

namespace {

// Those in a list where it is written, else every `step`-th.
std::vector<bool> llama4_expert_layers(Config& config, std::int64_t num_layers) {
  std::vector<bool> sparse(static_cast<std::size_t>(num_layers), false);
  if (const auto listed = config.sizes("moe_layers", {0, num_layers - 1})) {
    for (const std::int64_t layer : *listed) sparse[static_cast<std::size_t>(layer)] = true;
    return sparse;
  }
  const std::int64_t step = config.size({"interleave_moe_layer_step"}, kLayersRange, 1);
  for (std::size_t i = 0; i < sparse.size(); ++i)
    sparse[i] = (i + 1) % static_cast<std::size_t>(step) == 0;
  return sparse;
}

// Those that turn by positions see their chunk; the class reads an empty list as none.
std::vector<bool> llama4_chunked_layers(Config& config, std::int64_t num_layers) {
  constexpr std::int64_t kFullPeriod = 4;
  if (const auto names =
          config.layer_names("layer_types", num_layers, {"chunked_attention", "full_attention"})) {
    std::vector<bool> chunked;
    for (const std::string& name : *names) chunked.push_back(name == "chunked_attention");
    return chunked;
  }
  const auto turning = config.sizes("no_rope_layers", {0, 1});
  const bool listed = turning && !turning->empty();
  if (listed && std::ssize(*turning) < num_layers)
    config.fail("no_rope_layers", "fewer numbers than layers");
  const std::int64_t period = config.size({"no_rope_layer_interval"}, kLayersRange, kFullPeriod);
  std::vector<bool> chunked;
  for (std::int64_t i = 0; i < num_layers; ++i)
    chunked.push_back(listed ? (*turning)[static_cast<std::size_t>(i)] != 0
                             : (i + 1) % period != 0);
  return chunked;
}

}  // namespace

// Llama4TextConfig defaults: 40 heads, 8 key-value heads of 128, 131072 positions, untied, no
// biases, norms over heads without parameters. Every interleave_moe_layer_step-th layer has experts
// and one that every token visits, the others a wider network; three layers of four see the 8192
// tokens of their chunk, those that turn by positions.
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
  auto chunk = config.optional_size({"attention_chunk_size"}, kTokensRange);
  if (!config.written("attention_chunk_size")) chunk = 8192;
  const std::vector<bool> has_experts = llama4_expert_layers(config, model.num_layers);
  const std::vector<bool> chunked = llama4_chunked_layers(config, model.num_layers);
  for (std::size_t i = 0; i < has_experts.size(); ++i) {
    LayerDesign& design = has_experts[i] ? sparse : dense;
    design.attention_window = chunked[i] ? chunk : std::nullopt;
    add_layer(model, make_layer(design));
  }
}

}  // namespace tessera::hf
