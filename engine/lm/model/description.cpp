#include "description.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/weights/parts.h"

namespace tessera::lm {
namespace {

using kernels::Activation;

// ALiBi (Press et al., arXiv:2108.12409, section 3): a geometric row, and for numbers of heads
// between powers of two every other one of the next row.
std::vector<float> alibi_slopes(std::int64_t num_heads) {
  std::int64_t power = 1;
  while (2 * power <= num_heads) power *= 2;
  std::vector<float> slopes;
  const auto add = [&](double base, std::int64_t exponent) {
    slopes.push_back(static_cast<float>(std::pow(base, static_cast<double>(exponent))));
  };
  const auto base_of = [](std::int64_t heads) {
    return std::exp2(-8.0 / static_cast<double>(heads));
  };
  for (std::int64_t i = 1; i <= power; ++i) add(base_of(power), i);
  for (std::int64_t i = 1; static_cast<std::int64_t>(slopes.size()) < num_heads; i += 2) {
    add(base_of(2 * power), i);
  }
  return slopes;
}

/// Reads what a family's config class has beyond sizes, with that class's defaults.
class Reader {
 public:
  Reader(const weights::Weights& weights, const ModelShape& shape)
      : weights_(weights),
        shape_(shape),
        config_(weights::hf_config_of(weights)),
        path_(weights.config_path()),
        fields_(config_, path_) {
    description_.shape = shape;
    description_.path = path_;
  }

  Description read() {
    const std::string& family = shape_.family;
    description_.attention_scale = 1 / std::sqrt(static_cast<float>(shape_.head_dim));
    static const std::map<std::string, void (Reader::*)()> readers = {
        {"opt", &Reader::read_opt},
        {"bloom", &Reader::read_bloom},
        {"gpt2", &Reader::read_gpt2},
        {"gptj", &Reader::read_gptj},
        {"falcon", &Reader::read_falcon},
        {"gemma2", &Reader::read_gemma},
        {"gemma3", &Reader::read_gemma},
        {"llama", &Reader::read_llama},
        {"mistral", &Reader::read_llama},
        {"mixtral", &Reader::read_llama},
        {"qwen2", &Reader::read_llama},
        {"qwen3", &Reader::read_llama},
        {"qwen2_moe", &Reader::read_qwen_moe},
        {"qwen3_moe", &Reader::read_qwen_moe}};
    const auto reader = readers.find(family);
    if (reader == readers.end()) {
      std::vector<std::string> known;
      for (const auto& [name, ignored] : readers) known.push_back(name);
      refuse(ErrorCode::unsupported, path_, "the family {} can be planned, not run; run are {}",
             quote(family), join(known, ", "));
    }
    (this->*reader->second)();
    return std::move(description_);
  }

 private:
  static constexpr double kMost = 1e9;

  double number(const char* key, double fallback) {
    return fields_.number(key, -kMost, kMost, fallback);
  }
  float epsilon(const char* key, double fallback) {
    return static_cast<float>(fields_.number(key, 0, 1, fallback));
  }
  bool flag(const char* key, bool fallback) { return fields_.boolean(key, fallback); }
  void must_be(const char* key, bool value) {
    if (flag(key, value) == value) return;
    refuse(ErrorCode::unsupported, fields_.path_of(key), "only {} is understood", value);
  }

  Activation activation(const char* key, const char* fallback) {
    static const std::map<std::string, Activation> known = {
        {"relu", Activation::relu},
        {"gelu", Activation::gelu},
        {"gelu_new", Activation::gelu_tanh},
        {"gelu_fast", Activation::gelu_tanh},
        {"gelu_pytorch_tanh", Activation::gelu_tanh},
        {"silu", Activation::silu},
        {"swish", Activation::silu}};
    const std::string name = fields_.text(key, fallback);
    const auto found = known.find(name);
    if (found != known.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [one, ignored] : known) names.push_back(one);
    refuse(ErrorCode::unsupported, fields_.path_of(key), "{} is not understood; known: {}",
           quote(name), join(names, ", "));
  }

  void read_opt() {
    Description& d = description_;
    d.norm = NormKind::layer;
    d.norm_epsilon = 1e-5f;
    d.positions = Positions::learned;
    d.position_offset = 2;
    d.activation = activation("activation_function", "relu");
    d.order = flag("do_layer_norm_before", true) ? Order::sequential : Order::post_norm;
  }

  void read_bloom() {
    Description& d = description_;
    d.norm = NormKind::layer;
    d.norm_epsilon = epsilon("layer_norm_epsilon", 1e-5);
    d.positions = Positions::alibi;
    d.alibi_slopes = alibi_slopes(shape_.num_heads);
    d.activation = Activation::gelu_tanh;
    must_be("apply_residual_connection_post_layernorm", false);
  }

  void read_gpt2() {
    Description& d = description_;
    d.norm = NormKind::layer;
    d.norm_epsilon = epsilon("layer_norm_epsilon", 1e-5);
    d.positions = Positions::learned;
    d.activation = activation("activation_function", "gelu_new");
    if (!flag("scale_attn_weights", true)) d.attention_scale = 1;
    d.scale_by_layer = flag("scale_attn_by_inverse_layer_idx", false);
  }

  void read_gptj() {
    Description& d = description_;
    d.norm = NormKind::layer;
    d.norm_epsilon = epsilon("layer_norm_epsilon", 1e-5);
    d.activation = activation("activation_function", "gelu_new");
    d.order = Order::parallel;
    d.shared_norm = true;
    d.interleaved = true;
    const auto width = fields_.has("rotary_dim") ? fields_.integer("rotary_dim", 2, shape_.head_dim)
                                                 : shape_.head_dim;
    add_rope({.width = width,
              .theta = 10000,
              .max_context_tokens = shape_.max_context_tokens,
              .factors = {}});
  }

  void read_falcon() {
    Description& d = description_;
    d.norm = NormKind::layer;
    d.norm_epsilon = epsilon("layer_norm_epsilon", 1e-5);
    d.activation = activation("activation", "gelu");
    const bool parallel = flag("parallel_attn", true) || flag("new_decoder_architecture", false);
    d.order = parallel ? Order::parallel : Order::sequential;
    d.shared_norm = parallel && !has(weights::Part::ffn_norm);
    if (flag("alibi", false)) {
      d.positions = Positions::alibi;
      d.alibi_slopes = alibi_slopes(shape_.num_heads);
      // Falcon scales the sum of product and bias, others the product alone.
      for (float& slope : d.alibi_slopes) slope *= d.attention_scale;
    } else {
      add_rope(usual_rope());
    }
  }

  void read_llama() {
    Description& d = description_;
    d.norm_epsilon = epsilon("rms_norm_eps", shape_.family == "mixtral" ? 1e-5 : 1e-6);
    d.activation = activation("hidden_act", "silu");
    d.qk_norm = has(weights::Part::q_norm);
    // llama.cpp's converter permutes the rows of these, for pairs that lie side by side.
    d.interleaved = weights_.is_gguf() && (shape_.family == "llama" || shape_.family == "mixtral");
    add_rope(usual_rope());
  }

  void read_qwen_moe() {
    read_llama();
    description_.normalise_experts = flag("norm_topk_prob", false);
  }

  void read_gemma() {
    Description& d = description_;
    d.norm_epsilon = epsilon("rms_norm_eps", 1e-6);
    if (!weights_.is_gguf()) d.norm_offset = 1;
    d.post_norms = true;
    d.qk_norm = shape_.family == "gemma3";
    d.activation = activation("hidden_activation", "gelu_pytorch_tanh");
    d.embedding_scale = std::sqrt(static_cast<float>(shape_.hidden_size));
    d.attention_scale = static_cast<float>(
        1 / std::sqrt(fields_.number("query_pre_attn_scalar", 1e-6, kMost, 256)));
    const bool capped = shape_.family == "gemma2";  // Gemma 3 has the keys and the value null
    d.attention_softcap = static_cast<float>(softcap("attn_logit_softcapping", capped ? 50 : 0));
    d.logit_softcap = static_cast<float>(softcap("final_logit_softcapping", capped ? 30 : 0));
    add_rope(usual_rope(shape_.family == "gemma3" ? 1e6 : 1e4, "full_attention"));
    if (shape_.family == "gemma3") add_local_rope();
  }

  double softcap(const char* key, double fallback) {
    const auto written = config_.find(key);
    if (written != config_.end() && written->is_null()) return 0;
    return fields_.number(key, 0, kMost, fallback);
  }

  // Layers with a window turn by frequencies of their own, without scaling.
  void add_local_rope() {
    RopeRequest local = usual_rope();
    local.theta = rope_number("rope_theta", "sliding_attention",
                              fields_.number("rope_local_base_freq", 1, kMost, 1e4));
    description_.ropes.push_back(make_rope(local, Json(), path_));
    for (std::int64_t i = 0; i < shape_.num_layers; ++i) {
      if (shape_.layer(i).attention_window)
        description_.rope_of_layer[static_cast<std::size_t>(i)] = 1;
    }
  }

  bool has(weights::Part part) const {
    return weights::find_part(weights_, shape_, part, 0).has_value();
  }

  // transformers 5 writes all of it into rope_parameters, for each type of layer where they differ.
  const Json* rope_parameters(const char* layer_type) {
    if (!fields_.has("rope_parameters")) return nullptr;
    const Json& all = fields_.at("rope_parameters");
    if (layer_type == nullptr || !all.is_object()) return &all;
    const auto own = all.find(layer_type);
    return own == all.end() ? &all : &*own;
  }
  double rope_number(const char* key, const char* layer_type, double fallback) {
    const Json* parameters = rope_parameters(layer_type);
    if (parameters == nullptr) return fallback;
    return JsonFields(*parameters, path_ + ": rope_parameters").number(key, 1e-9, kMost, fallback);
  }

  RopeRequest usual_rope(double theta = 1e4, const char* layer_type = nullptr) {
    layer_type_ = layer_type;
    const double part = rope_number("partial_rotary_factor", layer_type,
                                    fields_.number("partial_rotary_factor", 1e-6, 1, 1));
    std::int64_t width = static_cast<std::int64_t>(static_cast<double>(shape_.head_dim) * part);
    if (weights_.is_gguf() && fields_.has("rotary_dim"))
      width = fields_.integer("rotary_dim", 2, shape_.head_dim);
    return {.width = width,
            .theta = rope_number("rope_theta", layer_type,
                                 fields_.number("rope_theta", 1e-9, 1e12, theta)),
            .max_context_tokens = shape_.max_context_tokens,
            .factors = {}};
  }

  void add_rope(RopeRequest request) {
    if (request.width % 2 != 0 || request.width < 2) {
      refuse(ErrorCode::unsupported, path_,
             "rotary embeddings of {} of {} features: not an even number", request.width,
             shape_.head_dim);
    }
    if (const auto factors = weights::find_part(weights_, shape_, weights::Part::rope_factors)) {
      request.factors.resize(static_cast<std::size_t>(request.width / 2));
      weights::read_f32(weights_, *factors->weight, 0, request.factors);
    }
    const Json* scaling = rope_parameters(layer_type_);
    if (scaling == nullptr && fields_.has("rope_scaling")) scaling = &fields_.at("rope_scaling");
    description_.positions = Positions::rope;
    description_.ropes.push_back(
        make_rope(request, scaling == nullptr ? Json() : *scaling, path_ + ": rope_scaling"));
    description_.rope_of_layer.assign(static_cast<std::size_t>(shape_.num_layers), 0);
  }

  const weights::Weights& weights_;
  const ModelShape& shape_;
  const Json config_;
  const std::string path_;
  JsonFields fields_;
  const char* layer_type_ = nullptr;
  Description description_;
};

}  // namespace

kernels::AttentionForm attention_form(const Description& description, std::int64_t layer_index,
                                      std::int64_t num_heads, const float* alibi_slopes) {
  const std::int64_t divisor = description.scale_by_layer ? layer_index + 1 : 1;
  return {.num_heads = num_heads,
          .scale = description.attention_scale / static_cast<float>(divisor),
          .softcap = description.attention_softcap,
          .window = description.shape.layer(layer_index).attention_window.value_or(0),
          .alibi_slopes = alibi_slopes};
}

Description describe(const weights::Weights& weights, const ModelShape& shape) {
  return Reader(weights, shape).read();
}

}  // namespace tessera::lm
