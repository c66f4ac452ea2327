#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/model_shape.h"

// What the readers of Hugging Face config.json share. A family is one function that turns the keys
// of its config class into a ModelShape; defaults are those that the class documents, and only
// where the class has one.
namespace tessera::hf {

/// Spellings of one field; the config may write any, and those it writes must agree.
using Keys = std::initializer_list<const char*>;
/// Words that one field may say.
using Names = std::initializer_list<std::string_view>;

/// A config.json, read key by key; keys that nobody asks for are fine.
class Config {
 public:
  Config(const Json& object, std::string path);

  /// @throws if absent and without fallback
  std::int64_t size(Keys keys, SizeRange range, std::optional<std::int64_t> fallback = {});
  std::optional<std::int64_t> optional_size(Keys keys, SizeRange range);
  bool flag(const char* key, bool fallback);
  double number(const char* key, double low, double high, double fallback);

  /// The key is there, be it with the value null, which some classes tell apart from absence.
  bool written(const char* key) const { return object_.contains(key); }
  /// nullptr when absent or null.
  const Json* find(const char* key) { return has(key) ? &fields_.at(key) : nullptr; }

  /// Keys that nobody has asked for, but for null and false.
  std::vector<std::string> unread() const;

  /// Refuses names such as "swiglu", which say that the activation brings its own gate; `gated`:
  /// one that says so of a layer that has a gate anyway.
  void check_activation(Keys keys, std::string_view gated = {});

  /// A list of one name per layer where it is written, each one of `known`.
  std::optional<std::vector<std::string>> layer_names(const char* key, std::int64_t num_layers,
                                                      Names known);
  /// Whole numbers in a list where it is written.
  std::optional<std::vector<std::int64_t>> sizes(const char* key, SizeRange range);
  /// One number for all layers, or a list of one per layer.
  std::vector<std::int64_t> layer_sizes(Keys keys, std::int64_t num_layers, SizeRange range,
                                        std::optional<std::int64_t> fallback = {});
  /// `layer_types` where written; each entry true for sliding-window attention.
  std::optional<std::vector<bool>> sliding_layers(std::int64_t num_layers);

  [[noreturn]] void fail(const char* key, const std::string& problem,
                         ErrorCode code = ErrorCode::invalid_argument) const;
  const std::string& path() const { return path_; }

 private:
  bool has(const char* key);  ///< and notes that it was asked for
  std::int64_t checked_integer(const char* key, SizeRange range);

  const Json& object_;
  std::string path_;
  JsonFields fields_;
  std::set<std::string, std::less<>> asked_;
};

/// A decoder layer in words; make_layer turns it into matrices.
struct LayerDesign {
  std::int64_t hidden_size = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn_size = 0;
  std::int64_t norm_parameters = 0;  ///< all norms over the hidden size
  bool gated_ffn = false;
  bool qkv_bias = false;
  bool output_bias = false;
  bool ffn_bias = false;
  bool qk_norm = false;          ///< RMS norms over the head dimension, shared by the heads
  std::int64_t num_experts = 0;  ///< 0: a dense feed-forward network without router
  std::int64_t num_active_experts = 0;
  std::int64_t shared_ffn_size = 0;  ///< of the experts that every token visits, as one; 0: none
  std::optional<std::int64_t> attention_window = {};
  std::optional<std::int64_t> value_dim = {};  ///< of a head, where it is not head_dim
  bool output_gate = false;      ///< queries bring a gate of their width for the outputs
  bool plain_gate = false;       ///< that gate is a matrix of its own, without a bias
  bool head_gate = false;        ///< a gate of one number for each head, which stays in FP16
  bool shares_kv = false;        ///< keys and values are an earlier layer's
  bool keys_are_values = false;  ///< one projection makes both
};
LayerShape make_layer(const LayerDesign& design);
/// The two halves of it, for layers that have one alone or another mixer; norms that are no part of
/// attention are neither's.
void add_attention(const LayerDesign& design, LayerShape& layer);
void add_feed_forward(const LayerDesign& design, LayerShape& layer);

/// The sizes of `model` as the start of a design.
LayerDesign design_of(const ModelShape& model);

/// Appends a layer, reusing the class of an equal one.
void add_layer(ModelShape& model, const LayerShape& layer);
void add_layers(ModelShape& model, const LayerShape& layer);  ///< all num_layers of them

/// How many layers guess tokens further on.
std::int64_t next_token_layers(Config& config);
/// Sets them in the model: each has `layer_parameters`, and before them a matrix that joins the
/// hidden state to the next token's embedding, and three norms (DeepSeek-V3, section 2.2;
/// Qwen3-Next, GLM-4.5 and MiMo have the same).
void count_next_token_layers(Config& config, std::int64_t layer_parameters, ModelShape& model);

/// Token embedding and LM head over `width` features (the hidden size but for OPT-350m).
void set_embeddings(ModelShape& model, std::int64_t width, bool tied);

/// Sets head_dim = hidden_size / num_heads. @throws unless it divides.
void split_hidden_size(Config& config, ModelShape& model);

/// @throws unless the query heads split evenly over the key-value heads.
void check_kv_heads(Config& config, const ModelShape& model);

/// num_experts and num_experts_per_tok into the design.
void read_experts(Config& config, Keys total_keys, LayerDesign& design);

/// What the config classes that descend from Llama disagree about.
struct LlamaDefaults {
  std::int64_t max_context_tokens = 0;
  std::optional<std::int64_t> num_kv_heads = {};  ///< absent: as many as heads
  std::optional<std::int64_t> head_dim = {};      ///< absent: hidden_size / num_heads
  bool tied_embeddings = false;
  std::optional<std::int64_t> num_heads = {};   ///< absent: a required field
  std::optional<std::int64_t> vocab_size = {};  ///< absent: a required field
  /// Width of the feed-forward network over the hidden size; absent: a required field.
  std::optional<std::int64_t> ffn_ratio = {};
  std::optional<std::int64_t> ffn_size = {};    ///< absent: a required field
  std::optional<std::int64_t> num_layers = {};  ///< absent: a required field
  bool listed_ffn_sizes = false;                ///< one per layer, which the reader has read
  std::string_view gated_activation = {};       ///< Config::check_activation
  bool stretches_context = true;  ///< by rope_scaling; false: what is written is the longest
};
/// The longest context where `tokens` are written and rope_scaling (or rope_parameters) stretches
/// them, as vLLM derives it: YaRN from the length before it, linear and dynamic from what is
/// written; the other kinds are in what is written already.
std::int64_t stretched_context(Config& config, std::int64_t tokens);

/// Sizes, embeddings and final norm of a descendant of Llama.
void read_llama_sizes(Config& config, const LlamaDefaults& defaults, ModelShape& model);
/// Its layer: gated, two RMS norms, no biases.
LayerDesign llama_design(const ModelShape& model);

// One reader per family; `model` comes with name, family and source set.
void read_bamba(Config& config, ModelShape& model);
void read_bloom(Config& config, ModelShape& model);
void read_chatglm(Config& config, ModelShape& model);
void read_dbrx(Config& config, ModelShape& model);
void read_deepseek_v2(Config& config, ModelShape& model);
void read_deepseek_v3(Config& config, ModelShape& model);
void read_deepseek_v32(Config& config, ModelShape& model);
void read_deepseek_v4(Config& config, ModelShape& model);
void read_falcon(Config& config, ModelShape& model);
void read_falcon_h1(Config& config, ModelShape& model);
void read_falcon_mamba(Config& config, ModelShape& model);
void read_gemma3(Config& config, ModelShape& model);
void read_gemma3n(Config& config, ModelShape& model);
void read_gemma4(Config& config, ModelShape& model);
void read_glm4_moe(Config& config, ModelShape& model);
void read_glm4_moe_lite(Config& config, ModelShape& model);
void read_glm_moe_dsa(Config& config, ModelShape& model);
void read_gpt2(Config& config, ModelShape& model);
void read_gpt_neo(Config& config, ModelShape& model);
void read_gpt_oss(Config& config, ModelShape& model);
void read_gptj(Config& config, ModelShape& model);
void read_granitemoehybrid(Config& config, ModelShape& model);
void read_jamba(Config& config, ModelShape& model);
void read_kimi_linear(Config& config, ModelShape& model);
void read_laguna(Config& config, ModelShape& model);
void read_latent_dense(Config& config, ModelShape& model);
void read_longcat_flash(Config& config, ModelShape& model);
void read_olmo_hybrid(Config& config, ModelShape& model);
void read_hunyuan_v1_moe(Config& config, ModelShape& model);
void read_recurrent_gemma(Config& config, ModelShape& model);
void read_rwkv(Config& config, ModelShape& model);
void read_lfm2(Config& config, ModelShape& model);
void read_lfm2_moe(Config& config, ModelShape& model);
void read_llama4(Config& config, ModelShape& model);
void read_mamba(Config& config, ModelShape& model);
void read_mamba2(Config& config, ModelShape& model);
void read_mistral4(Config& config, ModelShape& model);
void read_sarvam_mla(Config& config, ModelShape& model);
void read_step3p5(Config& config, ModelShape& model);
void read_mimo_v2_flash(Config& config, ModelShape& model);
void read_minimax(Config& config, ModelShape& model);
void read_minimax_m3(Config& config, ModelShape& model);
void read_mpt(Config& config, ModelShape& model);
void read_nemotron_h(Config& config, ModelShape& model);
void read_nemotron_nas(Config& config, ModelShape& model);
void read_opt(Config& config, ModelShape& model);
void read_qwen(Config& config, ModelShape& model);
void read_qwen2(Config& config, ModelShape& model);
void read_qwen2_moe(Config& config, ModelShape& model);
void read_qwen3(Config& config, ModelShape& model);
void read_qwen3_5(Config& config, ModelShape& model);
void read_qwen3_5_moe(Config& config, ModelShape& model);
void read_qwen3_moe(Config& config, ModelShape& model);
void read_qwen3_next(Config& config, ModelShape& model);

}  // namespace tessera::hf
