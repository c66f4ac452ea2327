#include "gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::weights {
namespace {

// A key of config.json and the key of the metadata, after "llama.", that says it.
struct Spelling {
  const char* config;
  const char* gguf;
  bool required = true;
};

struct Architecture {
  const char* model_type;
  std::vector<Spelling> spellings;
};

std::vector<Spelling> llama_spellings(std::vector<Spelling> others = {}) {
  std::vector<Spelling> all = {{"num_hidden_layers", "block_count"},
                               {"hidden_size", "embedding_length"},
                               {"num_attention_heads", "attention.head_count"},
                               {"num_key_value_heads", "attention.head_count_kv", false},
                               {"head_dim", "attention.key_length", false},
                               {"intermediate_size", "feed_forward_length"},
                               {"max_position_embeddings", "context_length"},
                               {"rms_norm_eps", "attention.layer_norm_rms_epsilon", false},
                               {"rope_theta", "rope.freq_base", false},
                               {"rotary_dim", "rope.dimension_count", false}};
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

// Source: convert_hf_to_gguf.py of llama.cpp, set_gguf_parameters of each model.
const std::map<std::string, Architecture>& architectures() {
  static const Spelling window = {"sliding_window", "attention.sliding_window", false};
  static const Spelling active = {"num_experts_per_tok", "expert_used_count"};
  static const Spelling epsilon = {"layer_norm_epsilon", "attention.layer_norm_epsilon", false};
  static const Spelling attention_cap = {"attn_logit_softcapping", "attn_logit_softcapping", false};
  static const Spelling final_cap = {"final_logit_softcapping", "final_logit_softcapping", false};
  static const std::map<std::string, Architecture> all = {
      {"bloom",
       {"bloom",
        {{"n_layer", "block_count"},
         {"n_head", "attention.head_count"},
         {"hidden_size", "embedding_length"},
         {"n_inner", "feed_forward_length", false},
         {"seq_length", "context_length"},
         epsilon}}},
      {"falcon",
       {"falcon",
        {{"num_hidden_layers", "block_count"},
         {"num_attention_heads", "attention.head_count"},
         {"num_kv_heads", "attention.head_count_kv", false},
         {"hidden_size", "embedding_length"},
         {"ffn_hidden_size", "feed_forward_length"},
         {"max_position_embeddings", "context_length"},
         {"rope_theta", "rope.freq_base", false},
         epsilon}}},
      {"gemma2", {"gemma2", llama_spellings({window, attention_cap, final_cap})}},
      {"gemma3", {"gemma3_text", llama_spellings({window})}},
      {"gpt2",
       {"gpt2",
        {{"n_layer", "block_count"},
         {"n_head", "attention.head_count"},
         {"n_embd", "embedding_length"},
         {"n_inner", "feed_forward_length"},
         {"n_positions", "context_length"},
         epsilon}}},
      {"llama", {"llama", llama_spellings()}},
      {"mixtral", {"mixtral", llama_spellings({{"num_local_experts", "expert_count"}, active})}},
      {"qwen2", {"qwen2", llama_spellings()}},
      {"qwen3", {"qwen3", llama_spellings()}},
      {"qwen3moe",
       {"qwen3_moe", llama_spellings({{"num_experts", "expert_count"},
                                      active,
                                      {"moe_intermediate_size", "expert_feed_forward_length"}})}},
  };
  return all;
}

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
  }

  Json config() const {
    const Architecture& architecture = find_architecture();
    Json config = {{"model_type", architecture.model_type}};
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
    config["vocab_size"] = vocab_size();
    config["tie_word_embeddings"] = !has("output.weight");
    add_choices(config);
    add_rope_scaling(config);
    return config;
  }

 private:
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
  bool has(const char* tensor) const { return weights_.find(tensor) != nullptr; }

  // llama.cpp files Mixtral under "llama".
  const Architecture& find_architecture() const {
    const Json* experts = find("llama.expert_count");
    const bool mixtral = prefix_ == "llama" && experts != nullptr && *experts != 0;
    const auto found = architectures().find(mixtral ? "mixtral" : prefix_);
    if (found != architectures().end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [name, architecture] : architectures()) known.push_back(name);
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: the architecture {} is not understood; known: {}", where_,
                            quote(prefix_), join(known, ", ")),
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
      config["bias"] = has("blk.0.attn_qkv.bias");
    } else if (prefix_ == "llama") {
      config["attention_bias"] = has("blk.0.attn_output.bias");
      config["mlp_bias"] = has("blk.0.ffn_down.bias");
    } else if (prefix_ == "qwen3moe") {
      config["norm_topk_prob"] = true;  // llama.cpp has no key for it
    } else if (prefix_ == "gemma2" || prefix_ == "gemma3") {
      add_query_scalar(config);
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
    config["rope_scaling"] = scaling;
  }

  const Weights& weights_;
  const Json& metadata_;
  std::string where_, prefix_;
};

}  // namespace

Json config_of_gguf(const Weights& weights) { return Translation(weights).config(); }

}  // namespace tessera::weights
