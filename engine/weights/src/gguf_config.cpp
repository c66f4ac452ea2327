#include "gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gguf_architectures.h"
#include "tessera/core/error.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/text.h"

namespace tessera::weights {
namespace {

class Translation {
 public:
  explicit Translation(const Weights& weights)
      : weights_(weights), metadata_(weights.config()), where_(quote(weights.config_path(), 300)) {
    const Json* name = find("general.architecture");
    if (name == nullptr || !name->is_string()) {
      throw Error(ErrorCode::invalid_argument, where_ + ": no text general.architecture",
                  weights.config_path());
    }
    prefix_ = name->get<std::string>();
    set_apart_next_token_layers();
  }

  Json config() const {
    const Architecture& architecture = known_architecture();
    Json config = architecture.fixed;
    config["model_type"] = architecture.model_type;
    for (const Spelling& spelling : architecture.spellings) {
      const Json* value = find(prefix_ + "." + spelling.gguf);
      if (value != nullptr) {
        config[spelling.config] = of_all_layers(*value);
      } else if (spelling.required) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: no {}.{} in the metadata", where_, prefix_, spelling.gguf),
                    weights_.config_path());
      }
    }
    for (const FlagByTensor& flag : architecture.flags) config[flag.config] = has(flag.tensor);
    config["vocab_size"] = vocab_size();
    config["tie_word_embeddings"] = !has("output.weight");
    config["rows_permuted"] = architecture.permuted;
    add_choices(config);
    add_state_layers(architecture, config);
    add_kinds_of_layers(config);
    add_rope_scaling(config);
    if (next_token_layers_ > 0) config["num_nextn_predict_layers"] = next_token_layers_;
    return config;
  }

 private:
  // Layers that guess tokens further on stand behind the others, and are blocks in the metadata.
  // Files that leave them out may say them yet; then llama.cpp counts none (src/models/).
  void set_apart_next_token_layers() {
    const std::int64_t blocks = number_of(prefix_ + ".block_count");
    const std::int64_t behind = number_of(prefix_ + ".nextn_predict_layers");
    const std::int64_t layers = blocks - behind;
    if (behind < 1 || layers < 1 || !has(layer_part(layers, "nextn.eh_proj.weight"))) return;
    next_token_layers_ = behind;
    for (auto& [key, value] : metadata_.items()) {
      if (!key.starts_with(prefix_ + ".") || !value.is_array()) continue;
      if (std::ssize(value) != blocks) continue;
      value.erase(value.begin() + layers, value.end());
    }
    metadata_[prefix_ + ".block_count"] = layers;
  }

  // What may be given by layer and is the same in all.
  static Json of_all_layers(const Json& value) {
    const bool alike = value.is_array() && !value.empty() &&
                       std::all_of(value.begin(), value.end(),
                                   [&](const Json& layer) { return layer == value.front(); });
    return alike ? value.front() : value;
  }

  const Json* find(const std::string& key) const {
    const auto found = metadata_.find(key);
    return found == metadata_.end() ? nullptr : &*found;
  }
  std::int64_t number_of(const std::string& key) const {
    const Json* found = find(key);
    return found != nullptr && found->is_number_integer() ? found->get<std::int64_t>() : 0;
  }
  static std::string layer_part(std::int64_t layer, const char* part) {
    return "blk." + std::to_string(layer) + "." + part;
  }
  bool has(const std::string& tensor) const { return weights_.find(tensor) != nullptr; }

  // llama.cpp files Mixtral under "llama".
  const Architecture& known_architecture() const {
    const Json* experts = find("llama.expert_count");
    const bool mixtral = prefix_ == "llama" && experts != nullptr && *experts != 0;
    const Architecture* found = find_architecture(mixtral ? "mixtral" : prefix_);
    if (found != nullptr) return *found;
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: the architecture {} is not understood; known: {}", where_,
                            quote(prefix_), join(known_architectures(), ", ")),
                weights_.config_path());
  }

  // The embedding's rows, as llama.cpp counts its tokens: the metadata may leave out added ones.
  Json vocab_size() const {
    const TensorInfo* embedding = weights_.find("token_embd.weight");
    if (embedding != nullptr && embedding->shape.size() == 2) return embedding->shape.front();
    if (const Json* size = find(prefix_ + ".vocab_size")) return *size;
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: neither a matrix token_embd.weight nor {}.vocab_size says how many "
                    "tokens there are",
                    where_, prefix_),
        weights_.config_path());
  }

  // What config.json says in words and GGUF by the tensors that are there.
  void add_choices(Json& config) const {
    if (prefix_ == "falcon") {
      const Json* kv_heads = find("falcon.attention.head_count_kv");
      const bool one = kv_heads == nullptr || *kv_heads == 1;
      const bool all = kv_heads != nullptr && *kv_heads == config["num_attention_heads"];
      config["multi_query"] = one;
      config["new_decoder_architecture"] = has("blk.0.attn_norm_2.weight") || !(one || all);
    } else if (prefix_ == "starcoder") {
      config["multi_query"] = number_of("starcoder.attention.head_count_kv") == 1;
    } else if (prefix_ == "gemma2" || prefix_ == "gemma3") {
      add_query_scalar(config);
    } else if (prefix_ == "olmo2" && config.contains("sliding_window")) {
      config["model_type"] = "olmo3";
    } else if (prefix_ == "phi3" && config.value("sliding_window", Json()) == 0) {
      config.erase("sliding_window");
    }
    if (prefix_ == "chatglm") add_head_width(config);
    if (prefix_ == "llama4") add_chunks(config);
    if (prefix_ == "deepseek2") add_latents(config);
    if (prefix_ == "gemma4") add_unlike_heads(config);
    if (const Json* ratios = find(prefix_ + ".attention.compress_ratios"))
      config["compress_ratios"] = *ratios;  // a list, also of one number
    const std::int64_t inner = number_of(prefix_ + ".ssm.inner_size");
    const std::int64_t heads = number_of(prefix_ + ".ssm.time_step_rank");
    if (config.contains("linear_num_value_heads") && heads > 0 && inner % heads == 0)
      config["linear_value_head_dim"] = inner / heads;
  }

  // What llama.cpp takes without a key: chunks of 8192, or where their key says 0 none and rope
  // everywhere, and norms of heads but for the one model of so many experts.
  void add_chunks(Json& config) const {
    config["use_qk_norm"] = number_of("llama4.expert_count") != 128;
    const bool none = config.value("attention_chunk_size", Json()) == 0;
    config.erase("attention_chunk_size");
    if (!none) return;
    config["attention_chunk_size"] = Json();
    config["no_rope_layer_interval"] = kLayersRange.high;
  }

  // Layers without key heads keep a state.
  void add_state_layers(const Architecture& architecture, Json& config) const {
    const std::int64_t inner = number_of(prefix_ + ".ssm.inner_size");
    const std::int64_t hidden = number_of(prefix_ + ".embedding_length");
    if (hidden > 0 && inner > 0 && inner % hidden == 0) config["mamba_expand"] = inner / hidden;
    const Json* turned = find(prefix_ + ".rope.scaling.finetuned");
    if (turned != nullptr && *turned == false) config["position_embedding_type"] = Json();
    const Json* heads = find(prefix_ + ".attention.head_count_kv");
    if (heads == nullptr || !heads->is_array()) return;
    Json types = Json::array(), most = 0;
    for (const Json& own : *heads) {
      if (architecture.attends != nullptr)
        types.push_back(own == 0 ? architecture.keeps_state : architecture.attends);
      if (own.is_number_integer() && own > most) most = own;
    }
    if (!types.empty()) config["layer_types"] = types;
    if (prefix_ != "gemma4") config["num_key_value_heads"] = most;
    if (prefix_ == "jamba") add_periods(*heads, config);
    if (prefix_.starts_with("nemotron_h")) add_blocks(config);
  }

  // Of a number by layer, or one for all.
  std::int64_t number_of_layer(const std::string& key, std::int64_t layer) const {
    const Json* found = find(key);
    if (found == nullptr || !found->is_array()) return number_of(key);
    const auto at = static_cast<std::size_t>(layer);
    return at < found->size() && (*found)[at].is_number_integer() ? (*found)[at].get<std::int64_t>()
                                                                  : 0;
  }

  // A block with key heads attends, one with a width is a network or experts.
  void add_blocks(Json& config) const {
    std::string blocks;
    std::int64_t widest = 0;
    bool biased = false;
    const std::int64_t layers = std::min(number_of(prefix_ + ".block_count"), kLayersRange.high);
    for (std::int64_t i = 0; i < layers; ++i) {
      const std::int64_t width = number_of_layer(prefix_ + ".feed_forward_length", i);
      widest = std::max(widest, width);
      biased = biased || has(layer_part(i, "ffn_up.bias"));
      const bool attends = number_of_layer(prefix_ + ".attention.head_count_kv", i) > 0;
      const bool routed = has(layer_part(i, "ffn_gate_inp.weight"));
      blocks += attends ? '*' : routed ? 'E' : width > 0 ? '-' : 'M';
    }
    config["hybrid_override_pattern"] = blocks;
    config["intermediate_size"] = widest;
    config["mlp_bias"] = biased;
    const std::int64_t inner = number_of(prefix_ + ".ssm.inner_size");
    const std::int64_t heads = number_of(prefix_ + ".ssm.time_step_rank");
    if (heads > 0 && inner % heads == 0) config["mamba_head_dim"] = inner / heads;
  }

  // Layers that see a window have other heads than those that see everything, and those that attend
  // to keys of others may have a wider network.
  void add_unlike_heads(Json& config) const {
    const Json* windows = find(prefix_ + ".attention.sliding_window_pattern");
    const std::int64_t layers = std::min(number_of(prefix_ + ".block_count"), kLayersRange.high);
    const Json* width = find(prefix_ + ".attention.key_length_swa");
    if (width != nullptr) config["head_dim"] = *width;
    config.erase("rotary_dim");
    const std::string ffn = prefix_ + ".feed_forward_length";
    const std::int64_t narrow = number_of_layer(ffn, 0);
    config["intermediate_size"] = narrow;
    config["use_double_wide_mlp"] = number_of_layer(ffn, layers - 1) > narrow;
    for (std::int64_t i = 0; i < layers && windows != nullptr && windows->is_array(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const bool slides = at < windows->size() && (*windows)[at] == true;
      const std::int64_t heads = number_of_layer(prefix_ + ".attention.head_count_kv", i);
      config[slides ? "num_key_value_heads" : "num_global_key_value_heads"] = heads;
      if (!slides && i + number_of(prefix_ + ".attention.shared_kv_layers") < layers)
        config["attention_k_eq_v"] = !has(layer_part(i, "attn_v.weight"));
    }
    const TensorInfo* inputs = weights_.find("per_layer_token_embd.weight");
    if (inputs != nullptr && !inputs->shape.empty())
      config["vocab_size_per_layer_input"] = inputs->shape.front();
  }

  // Of layers that attend, and of those with experts.
  void add_periods(const Json& heads, Json& config) const {
    std::vector<std::size_t> attend, routed;
    for (std::size_t i = 0; i < heads.size(); ++i) {
      if (heads[i] != 0) attend.push_back(i);
      if (has(layer_part(static_cast<std::int64_t>(i), "ffn_gate_inp.weight"))) routed.push_back(i);
    }
    const auto add = [&](const std::vector<std::size_t>& at, const std::string& name) {
      if (at.empty()) return;
      config[name + "_layer_offset"] = at[0];
      config[name + "_layer_period"] = at.size() > 1 ? at[1] - at[0] : heads.size();
    };
    add(attend, "attn");
    add(routed, "expert");
  }

  // One head of the latent is what GGUF counts as key heads.
  void add_latents(Json& config) const {
    const auto width = [&](const char* key) {
      const std::int64_t own = number_of(prefix_ + ".attention." + key + "_mla");
      return own > 0 ? own : number_of(prefix_ + ".attention." + key);
    };
    config.erase("num_key_value_heads");
    config.erase("head_dim");
    const Json* rank = find(prefix_ + ".attention.q_lora_rank");
    config["q_lora_rank"] = rank == nullptr ? Json() : *rank;
    config["qk_nope_head_dim"] = width("key_length") - number_of(prefix_ + ".rope.dimension_count");
    config["v_head_dim"] = width("value_length");
    // What is beyond is refused with the other sizes; nobody counts so far first.
    const std::int64_t layers = std::min(number_of(prefix_ + ".block_count"), kLayersRange.high);
    std::int64_t dense = 0;
    while (dense < layers && !has(layer_part(dense, "ffn_gate_inp.weight"))) ++dense;
    config["first_k_dense_replace"] = dense;
    if (has(layer_part(layers - 1, "exp_probs_b.bias"))) config["model_type"] = "deepseek_v3";
    if (!config.contains("norm_topk_prob")) config["norm_topk_prob"] = false;  // written if it is
  }

  // Where no key says it.
  void add_head_width(Json& config) const {
    const TensorInfo* queries = weights_.find("blk.0.attn_q.weight");
    const std::int64_t heads = number_of(prefix_ + ".attention.head_count");
    if (queries != nullptr && !queries->shape.empty() && heads > 0)
      config["head_dim"] = queries->shape.front() / heads;
  }

  // Which layers have a window and which keep a state, where that is written by layer.
  void add_kinds_of_layers(Json& config) const {
    const Json* windows = find(prefix_ + ".attention.sliding_window_pattern");
    const Json* states = find(prefix_ + ".attention.recurrent_layers");
    const Json* interval = find(prefix_ + ".full_attention_interval");
    const auto add = [&](const Json& list, const char* in, const char* out) {
      Json types = Json::array();
      for (const Json& layer : list) types.push_back(layer == true ? in : out);
      config["layer_types"] = types;
    };
    if (windows != nullptr && windows->is_array())
      add(*windows, "sliding_attention", "full_attention");
    if (states != nullptr && states->is_array()) {
      add(*states, "linear_attention", "full_attention");
    } else if (interval != nullptr) {
      config["full_attention_interval"] = *interval;
    }
  }

  // What queries are divided by the root of. llama.cpp tells the models of 27 billion parameters,
  // where it is not the head's width, by their number of layers.
  void add_query_scalar(Json& config) const {
    const bool largest = config["num_hidden_layers"] == (prefix_ == "gemma2" ? 46 : 62);
    const auto number = [&](const char* key) -> std::int64_t {
      const auto found = config.find(key);
      return found != config.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
    };
    const std::int64_t heads = number("num_attention_heads"), width = number("head_dim");
    if (largest && heads > 0) {
      config["query_pre_attn_scalar"] = number("hidden_size") / heads;
    } else if (width > 0) {
      config["query_pre_attn_scalar"] = width;
    }
  }

  // The scalings that GGUF has in its metadata; Llama 3's is a tensor, rope_freqs.
  void add_rope_scaling(Json& config) const {
    const Json* type = find(prefix_ + ".rope.scaling.type");
    if (type == nullptr || *type == "none") return;
    Json scaling = {{"rope_type", *type}};
    const auto copy = [&](const char* key, const char* gguf) {
      if (const Json* value = find(prefix_ + ".rope.scaling." + gguf)) scaling[key] = *value;
    };
    copy("factor", "factor");
    copy("attention_factor", "attn_factor");
    copy("beta_fast", "yarn_beta_fast");
    copy("beta_slow", "yarn_beta_slow");
    copy("original_max_position_embeddings", "original_context_length");
    // A tenth of mscale, which is that of all dimensions too: it cancels in cosines and sines.
    const Json* log = find(prefix_ + ".rope.scaling.yarn_log_multiplier");
    if (log != nullptr && log->is_number())
      scaling["mscale"] = scaling["mscale_all_dim"] = 10 * log->get<double>();
    if (prefix_ == "gpt-oss") scaling["truncate"] = false;  // as it was published
    config["rope_scaling"] = scaling;
  }

  const Weights& weights_;
  Json metadata_;
  std::string where_, prefix_;
  std::int64_t next_token_layers_ = 0;
};

}  // namespace

Json config_of_gguf(const Weights& weights) { return Translation(weights).config(); }

}  // namespace tessera::weights
