#include "description.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "streams.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/weights/parts.h"

namespace tessera::lm {
namespace {

using kernels::Activation;

/// The Arithmetic of a family with what its file says.
class Reader {
 public:
  Reader(const weights::Weights& weights, const ModelShape& shape)
      : weights_(weights),
        shape_(shape),
        config_(weights::hf_config_of(weights)),
        path_(weights.config_path()),
        fields_(config_, path_),
        family_(family()) {
    description_.shape = shape;
    description_.path = path_;
  }

  Description read() {
    for (const Switch& must : family_.only) must_be(must);
    read_norms();
    read_scales();
    read_activation();
    read_routing();
    read_positions();
    read_state();
    describe_streams(fields_, family_, description_);
    scale_scores_of_latents();
    return std::move(description_);
  }

 private:
  static constexpr double kMost = 1e9;

  Arithmetic family() const {
    if (auto found = arithmetic_of(shape_.family)) return *std::move(found);
    const auto known = families_with_arithmetic();
    refuse(ErrorCode::unsupported, path_, "the family {} can be planned, not run; run are {}",
           quote(shape_.family), join({known.begin(), known.end()}, ", "));
  }

  /// Calls f with the fields that a key lies in and its name there; "outer.inner" lies deeper.
  template <class F>
  auto at(const char* key, const F& f) {
    const std::string_view whole = key;
    const std::size_t dot = whole.find('.');
    if (dot == std::string_view::npos) return f(fields_, key);
    const std::string outer(whole.substr(0, dot));
    static const Json nothing = Json::object();
    const bool there = fields_.has(outer.c_str());
    JsonFields inner(there ? fields_.at(outer.c_str()) : nothing, fields_.path_of(outer.c_str()));
    return f(inner, key + dot + 1);
  }

  double number(const Setting& setting) {
    if (setting.key == nullptr) return setting.value;
    if (const std::string_view key = setting.key; key.find('.') != std::string_view::npos) {
      const std::string list(key.substr(0, key.find('.')));
      if (fields_.has(list.c_str()) && fields_.at(list.c_str()).is_array()) {
        const auto numbers =
            json_numbers(fields_.at(list.c_str()), fields_.path_of(list.c_str()), -kMost, kMost);
        const auto index =
            static_cast<std::size_t>(std::stoi(std::string(key.substr(list.size() + 1))));
        if (index < numbers.size()) return numbers[index];
        refuse(fields_.path_of(list.c_str()), "{} numbers, where one more belongs", numbers.size());
      }
    }
    return at(setting.key, [&](JsonFields& fields, const char* key) {
      return fields.number(key, -kMost, 1e12, setting.value);
    });
  }
  float single(const Setting& setting) { return static_cast<float>(number(setting)); }
  /// null says that there is none, and so no number.
  double cap(const Setting& setting) {
    if (setting.key == nullptr) return setting.value;
    const auto written = config_.find(setting.key);
    if (written != config_.end() && written->is_null()) return 0;
    return fields_.number(setting.key, 0, kMost, setting.value);
  }
  bool is_on(const Switch& s) {
    if (s.key == nullptr) return s.on;
    return at(s.key,
              [&](JsonFields& fields, const char* key) { return fields.boolean(key, s.on); });
  }
  void must_be(const Switch& s) {
    if (is_on(s) == s.on) return;
    refuse(ErrorCode::unsupported, path_ + ": " + s.key, "only {} is understood", s.on);
  }
  bool has(weights::Part part) const {
    return weights::find_part(weights_, shape_, part, 0).has_value();
  }

  void read_norms() {
    Description& d = description_;
    d.norm = family_.norm;
    d.norm_epsilon = single(family_.epsilon);
    // llama.cpp's converter adds the 1.
    if (!weights_.is_gguf()) d.norm_offset = static_cast<float>(family_.norm_offset);
    d.norm_weight = family_.norm_weight;
    d.norm_bias = is_on(family_.norm_bias);
    d.embedding_norm = family_.embedding_norm;
    d.places = is_on(family_.norms_first) ? family_.places : NormPlaces::after_sums;
    d.parallel = is_on(family_.parallel);
    d.shared_norm = d.parallel && family_.shared_norm;
    d.value_norm = family_.value_norm;
    d.layer_scale = family_.layer_scale;
    d.experts_beside_network = is_on(family_.experts_beside_network);
    if (shape_.family == "falcon") {
      d.parallel = d.parallel || is_on({.key = "new_decoder_architecture"});
      d.shared_norm = d.parallel && !has(weights::Part::ffn_norm);
    }
    d.qk_norm = is_on(family_.qk_normed) ? family_.qk_norm : QkNorm::none;
    d.qk_norm_turned = family_.qk_norm_turned;
  }

  void read_scales() {
    Description& d = description_;
    const double score_scale = number(family_.score_scale);
    double width = number(family_.score_width);
    if (width <= 0) width = static_cast<double>(shape_.head_dim);
    if (!is_on(family_.scaled_scores)) width = 1;
    d.attention_scale = static_cast<float>(score_scale != 0 ? score_scale : 1 / std::sqrt(width));
    d.scale_by_layer = is_on(family_.divided_by_layer);
    d.attention_softcap = static_cast<float>(cap(family_.score_cap));
    d.sinks = family_.sinks;
    d.chunked = family_.chunked;
    if (is_on(family_.tempered)) {
      d.temperature = {.tokens = number(family_.temper_tokens),
                       .slope = number(family_.temper_slope)};
      if (d.temperature.tokens < 1) {
        refuse(fields_.path_of(family_.temper_tokens.key), "{} tokens, where at least 1 belongs",
               d.temperature.tokens);
      }
    }
    d.logit_softcap = static_cast<float>(cap(family_.logit_cap));
    if (family_.clip_key != nullptr) d.clip = single({0, family_.clip_key});
    d.embedding_scale = family_.root_of_width ? std::sqrt(static_cast<float>(shape_.hidden_size))
                                              : single(family_.embedding_scale);
    d.residual_scale = single(family_.residual_scale);
    d.logit_scale = static_cast<float>(number(family_.logit_scale) / number(family_.logit_divisor));
    d.attention_in_scale = single(family_.attention_in_scale);
    d.attention_out_scale = single(family_.attention_out_scale);
    d.key_scale = single(family_.key_scale);
    d.state_in_scale = single(family_.state_in_scale);
    d.state_out_scale = single(family_.state_out_scale);
    d.gate_scale = single(family_.gate_scale);
    d.down_scale = single(family_.down_scale);
    if (const char* key = family_.state_part_scales; key != nullptr && fields_.has(key)) {
      constexpr std::size_t kParts = 5;
      for (const double scale : json_numbers(fields_.at(key), fields_.path_of(key), -kMost, kMost))
        d.state_part_scales.push_back(static_cast<float>(scale));
      if (d.state_part_scales.size() != kParts) {
        refuse(fields_.path_of(key), "{} numbers, where {} belong", d.state_part_scales.size(),
               kParts);
      }
    }
  }

  void read_activation() {
    static const std::map<std::string, Activation> known = {
        {"relu", Activation::relu},           {"relu2", Activation::relu},
        {"gelu", Activation::gelu},           {"gelu_new", Activation::gelu_tanh},
        {"gelu_fast", Activation::gelu_tanh}, {"gelu_pytorch_tanh", Activation::gelu_tanh},
        {"silu", Activation::silu},           {"swish", Activation::silu}};
    const char* key = family_.activation_key;
    const std::string name =
        key == nullptr ? family_.activation : fields_.text(key, family_.activation);
    const auto found = known.find(name);
    if (found == known.end()) {
      std::vector<std::string> names;
      for (const auto& [one, ignored] : known) names.push_back(one);
      refuse(ErrorCode::unsupported, fields_.path_of(key), "{} is not understood; known: {}",
             quote(name), join(names, ", "));
    }
    description_.activation = found->second;
    description_.squared = name == "relu2";
    description_.activation_limit = single(family_.activation_limit);
  }

  void read_routing() {
    const Routing& routing = family_.routing;
    description_.routing = {.sigmoid = routing.sigmoid,
                            .corrected = routing.corrected,
                            .normalise = is_on(routing.normalise),
                            .scale = single(routing.scale),
                            .shared_gate = routing.shared_gate,
                            .of_inputs = routing.of_inputs};
    if (routing.groups != nullptr) read_groups(routing);
  }

  void read_groups(const Routing& routing) {
    RoutingRule& rule = description_.routing;
    const Choice& where = routing.grouped_where;
    if (where.key != nullptr && fields_.text(where.key, "") != where.word) return;
    rule.num_groups = fields_.integer(routing.groups, 1, kExpertsRange.high, 1);
    if (rule.num_groups == 1) return;
    rule.active_groups =
        fields_.integer(routing.active_groups, 1, rule.num_groups, rule.num_groups);
    rule.best_of_group = routing.best_of_group;
    for (const LayerShape& layer : shape_.layer_classes) {
      for (const LinearShape& linear : layer.linears) {
        if (linear.name != "experts.down_proj") continue;
        const std::int64_t size = linear.num_copies / rule.num_groups;
        if (linear.num_copies % rule.num_groups == 0 && size >= rule.best_of_group &&
            size * rule.active_groups >= linear.num_active)
          continue;
        refuse(fields_.path_of(routing.groups),
               "{} experts, of which a token visits {}, do not come in {} groups of which {} are "
               "chosen",
               linear.num_copies, linear.num_active, rule.num_groups, rule.active_groups);
      }
    }
  }

  void read_state() {
    description_.output_gate = family_.output_gate;
    description_.latent_epsilon = single(family_.latent_epsilon);
    const LayerShape* with_state = nullptr;
    for (const LayerShape& layer : shape_.layer_classes)
      if (layer.state) with_state = &layer;
    if (with_state == nullptr) return;
    const LayerState* state = &*with_state->state;
    switch (state->kind) {
      case StateKind::gated_delta_net:
        description_.state = has_linear(*with_state, "linear_attn.f_a_proj")
                                 ? StateForm(kimi_delta(*with_state))
                                 : StateForm(delta_net());
        return;
      case StateKind::mamba:
        description_.state = mamba();
        return;
      case StateKind::mamba2:
        description_.state = mamba2();
        return;
      case StateKind::short_convolution:
        description_.state =
            GatedConvolution{.channels = state->num_heads,
                             .kernel = state->convolution_values / state->num_heads + 1};
        return;
      case StateKind::linear_attention:
        break;
    }
    refuse(ErrorCode::unsupported, path_, "layers of {} can be planned, not run",
           name_of(state->kind));
  }

  std::int64_t state_size(const char* key, SizeRange range,
                          std::optional<std::int64_t> fallback = {}) {
    return fallback ? fields_.integer(key, range.low, range.high, *fallback)
                    : fields_.integer(key, range.low, range.high);
  }

  DeltaNet delta_net() {
    DeltaNet net{.num_key_heads = state_size("linear_num_key_heads", kHeadsRange),
                 .num_value_heads = state_size("linear_num_value_heads", kHeadsRange),
                 .key_dim = state_size("linear_key_head_dim", kHeadDimRange),
                 .value_dim = state_size("linear_value_head_dim", kHeadDimRange),
                 .kernel = state_size("linear_conv_kernel_dim", {1, 1024}),
                 .by_head = family_.state_by_head && !weights_.is_gguf(),
                 .steps_by_head = family_.state_by_head,
                 .tiled = weights_.is_gguf() && is_on({.key = "value_heads_tiled"})};
    if (net.num_value_heads % net.num_key_heads != 0) {
      refuse(fields_.path_of("linear_num_value_heads"), "{} heads do not split over the {} of keys",
             net.num_value_heads, net.num_key_heads);
    }
    return net;
  }

  // The sizes that the shape has been made of, which has checked them.
  const LinearShape& linear_of_state(std::string_view name) const {
    for (const LayerShape& layer : shape_.layer_classes) {
      for (const LinearShape& linear : layer.linears)
        if (linear.name == name) return linear;
    }
    throw Error(ErrorCode::internal, "a state without its matrices");
  }

  Mamba mamba() const {
    const LinearShape &x = linear_of_state("mamba.x_proj"),
                      &step = linear_of_state("mamba.dt_proj");
    const std::int64_t inner = x.in_features;
    std::int64_t kept = 0;
    for (const LayerShape& layer : shape_.layer_classes)
      if (layer.state) kept = layer.state->convolution_values;
    return {.inner = inner,
            .state = (x.out_features - step.in_features) / 2,
            .rank = step.in_features,
            .kernel = kept / inner + 1,
            .normed = family_.normed_state_inputs};
  }

  // [least, most], of which transformers writes infinity as {"__float__": "Infinity"}. That of
  // time_step_min, which transformers alone applies to the steps of prompts, but not of single
  // tokens, is left: neither the models' own code nor llama.cpp has it.
  void read_step_limit(Mamba2& mamba) {
    if (!fields_.has("time_step_limit")) return;
    const Json& limits = fields_.at("time_step_limit");
    const std::string path = fields_.path_of("time_step_limit");
    const bool pair = limits.is_array() && limits.size() == 2;
    const bool open = pair && (limits[1].is_object() || limits[1].is_null() ||
                               (limits[1].is_number() && std::isinf(limits[1].get<double>())));
    const auto numbers = json_numbers(open ? Json::array({limits[0]}) : limits, path, 0, kMost);
    if (!pair) refuse(path, "{} numbers, where the least and the most belong", numbers.size());
    mamba.least_step = static_cast<float>(numbers[0]);
    if (!open) mamba.most_step = static_cast<float>(numbers[1]);
  }

  Mamba2 mamba2() {
    const Mamba2Keys& keys = family_.mamba2;
    const std::int64_t heads = state_size(keys.num_heads, kHeadsRange, 128);
    const std::int64_t inner = linear_of_state("mamba.out_proj").in_features;
    Mamba2 mamba{.num_heads = heads,
                 .head_dim = inner / heads,
                 .num_groups = state_size(keys.num_groups, kHeadsRange, keys.usual_groups),
                 .state = state_size(keys.state, kHeadDimRange, keys.usual_state),
                 .kernel = state_size(keys.kernel, {1, 1024}, 4),
                 .gate_last = is_on(keys.gate_last)};
    if (mamba.num_heads % mamba.num_groups != 0) {
      refuse(fields_.path_of(keys.num_groups), "{} heads do not split over {} groups",
             mamba.num_heads, mamba.num_groups);
    }
    read_step_limit(mamba);
    mamba.norm_groups = !is_on(keys.norm) ? 0 : keys.normed_by_groups ? mamba.num_groups : 1;
    return mamba;
  }

  void read_positions() {
    Description& d = description_;
    d.positions = is_on(family_.alibi) ? Positions::alibi : family_.positions;
    d.position_offset = family_.learned_offset;
    if (d.positions == Positions::alibi) {
      d.alibi_slopes = alibi_slopes(shape_.num_heads);
      if (family_.alibi_in_scale) {
        for (float& slope : d.alibi_slopes) slope *= d.attention_scale;
      }
    }
    if (family_.positions_key != nullptr && fields_.text(family_.positions_key, "") != "rope")
      d.positions = Positions::none;
    if (d.positions != Positions::rotary) return;
    // llama.cpp's converter permutes the rows of these, for pairs that lie side by side.
    d.interleaved =
        is_on(family_.interleaved) || (weights_.is_gguf() && is_on({.key = "rows_permuted"}));
    const bool local = family_.local_theta.key != nullptr;
    add_rope(usual_rope(local ? "full_attention" : nullptr, false));
    if (local || family_.plain_in_windows) add_local_rope(local);
    choose_rotary_layers();
  }

  // Layers with a window turn by frequencies without scaling, of a base of their own or the same.
  void add_local_rope(bool own_base) {
    RopeRequest local = usual_rope("sliding_attention", true);
    if (own_base)
      local.theta = rope_number("rope_theta", "sliding_attention", number(family_.local_theta));
    description_.ropes.push_back(make_rope(local, Json(), path_));
    for (std::int64_t i = 0; i < shape_.num_layers; ++i) {
      if (shape_.layer(i).attention_window)
        description_.rope_of_layer[static_cast<std::size_t>(i)] = 1;
    }
  }

  void choose_rotary_layers() {
    std::vector<std::int32_t>& ropes = description_.rope_of_layer;
    if (family_.rotary_layers == RotaryLayers::windows) {
      if (!fields_.has("sliding_window")) return;
      for (std::int64_t i = 0; i < shape_.num_layers; ++i) {
        if (!shape_.layer(i).attention_window) ropes[static_cast<std::size_t>(i)] = -1;
      }
    } else if (family_.rotary_layers == RotaryLayers::listed) {
      std::vector<std::int32_t> turn;
      if (fields_.has("no_rope_layers") && !fields_.at("no_rope_layers").empty()) {
        turn = json_integers(fields_.at("no_rope_layers"), fields_.path_of("no_rope_layers"), 0, 1);
        if (turn.size() != ropes.size()) {
          refuse(fields_.path_of("no_rope_layers"), "{} numbers for {} layers", turn.size(),
                 ropes.size());
        }
      } else {
        const std::int64_t interval =
            fields_.integer("no_rope_layer_interval", 1, kLayersRange.high, 4);
        for (std::int64_t i = 1; i <= shape_.num_layers; ++i) turn.push_back(i % interval != 0);
      }
      for (std::size_t i = 0; i < ropes.size(); ++i) {
        if (turn[i] == 0) ropes[i] = -1;
      }
    }
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

  // Heads of layers with a window may have another width.
  std::int64_t head_dim(bool windowed) const {
    for (const LayerShape& layer : shape_.layer_classes) {
      if (layer.attends() && layer.attention_window.has_value() == windowed) return layer.head_dim;
    }
    return shape_.head_dim;
  }

  RopeRequest usual_rope(const char* layer_type, bool windowed) {
    layer_type_ = layer_type;
    const auto written = [&](const Setting& setting, double most) {
      return fields_.number(setting.key, 1e-9, most, setting.value);
    };
    const double part =
        rope_number("partial_rotary_factor", layer_type, written(family_.rotary_part, 1));
    // Where a part of the pairs turns in proportion, all of them are turned, the others by nothing.
    const Json* parameters = rope_parameters(layer_type);
    const bool all = parameters != nullptr && parameters->is_object() &&
                     parameters->value("rope_type", "") == "proportional";
    std::int64_t width = head_dim(windowed);
    if (!all) width = static_cast<std::int64_t>(static_cast<double>(width) * part);
    const LayerShape* latent = nullptr;
    for (const LayerShape& layer : shape_.layer_classes)
      if (layer.latent_width) latent = &layer;
    if (latent != nullptr) width = latent->rope_width.value_or(0);
    const char* width_key = weights_.is_gguf() ? "rotary_dim" : family_.rotary_width;
    if (latent == nullptr && width_key != nullptr && fields_.has(width_key))
      width = fields_.integer(width_key, 2, shape_.head_dim);
    return {.width = width,
            .part = all ? part : 1,
            .theta = rope_number("rope_theta", layer_type, written(family_.theta, 1e12)),
            .max_context_tokens = fields_.integer("max_position_embeddings", 1, kTokensRange.high,
                                                  shape_.max_context_tokens),
            .original_tokens =
                fields_.integer("original_max_position_embeddings", 1, kTokensRange.high, 0),
            .factors = {}};
  }

  // YaRN's temperature is in the scores where the rotary part is not all of a key.
  void scale_scores_of_latents() {
    const bool latents = std::ranges::any_of(shape_.layer_classes, [](const LayerShape& layer) {
      return layer.latent_width.has_value();
    });
    if (latents && !description_.ropes.empty())
      description_.attention_scale *= static_cast<float>(description_.ropes.front().score_factor);
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
    description_.ropes.push_back(
        make_rope(request, scaling == nullptr ? Json() : *scaling, path_ + ": rope_scaling"));
    description_.rope_of_layer.assign(static_cast<std::size_t>(shape_.num_layers), 0);
  }

  const weights::Weights& weights_;
  const ModelShape& shape_;
  const Json config_;
  const std::string path_;
  JsonFields fields_;
  const Arithmetic family_;
  const char* layer_type_ = nullptr;
  Description description_;
};

}  // namespace

Description describe(const weights::Weights& weights, const ModelShape& shape) {
  return Reader(weights, shape).read();
}

}  // namespace tessera::lm
