// What a decoder asks of the shape of its layers.

#include <algorithm>
#include <cmath>

#include "description.h"
#include "tessera/core/error.h"

namespace tessera::lm {

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

StateLinears state_linears(const LayerShape& layer) {
  if (!layer.state) return {};
  switch (layer.state->kind) {
    case StateKind::gated_delta_net:
      if (has_linear(layer, "linear_attn.f_a_proj")) {
        return {.in = {"linear_attn.q_proj", "linear_attn.k_proj", "linear_attn.v_proj",
                       "linear_attn.f_a_proj", "linear_attn.g_a_proj", "linear_attn.b_proj"},
                .inner = {"linear_attn.f_b_proj", "linear_attn.g_b_proj"},
                .out = "linear_attn.o_proj"};
      }
      return {.in = {"linear_attn.in_proj_qkvz", "linear_attn.in_proj_ba"},
              .inner = {},
              .out = "linear_attn.out_proj"};
    case StateKind::mamba:
      return {.in = {"mamba.in_proj"},
              .inner = {"mamba.x_proj", "mamba.dt_proj"},
              .out = "mamba.out_proj"};
    case StateKind::mamba2:
      return {.in = {"mamba.in_proj"}, .inner = {}, .out = "mamba.out_proj"};
    case StateKind::short_convolution:
      return {.in = {"conv.in_proj"}, .inner = {}, .out = "conv.out_proj"};
    case StateKind::linear_attention:
      break;
  }
  return {};
}

bool has_linear(const LayerShape& layer, std::string_view name) {
  return std::ranges::any_of(layer.linears,
                             [&](const LinearShape& linear) { return linear.name == name; });
}

KimiDelta kimi_delta(const LayerShape& layer) {
  KimiDelta net{.num_heads = layer.state->num_heads};
  for (const LinearShape& linear : layer.linears)
    if (linear.name == "linear_attn.f_a_proj") net.head_dim = linear.out_features;
  net.kernel = layer.state->convolution_values / net.channels() + 1;
  return net;
}

bool feeds_forward(const LayerShape& layer) {
  return has_linear(layer, "down_proj") || has_linear(layer, "experts.down_proj");
}

std::int64_t layer_input_width(const LayerShape& layer) {
  for (const LinearShape& linear : layer.linears)
    if (linear.name == "per_layer_input.in_proj") return linear.out_features;
  return 0;
}

bool turns(const Description& description, std::int64_t layer_index) {
  const auto& ropes = description.rope_of_layer;
  return !ropes.empty() && ropes[static_cast<std::size_t>(layer_index)] >= 0;
}

std::int64_t kv_source(const ModelShape& shape, std::int64_t layer_index) {
  const LayerShape& layer = shape.layer(layer_index);
  if (!layer.shares_kv) return layer_index;
  for (std::int64_t i = layer_index - 1; i >= 0; --i) {
    const LayerShape& other = shape.layer(i);
    if (other.attends() && !other.shares_kv &&
        other.attention_window.has_value() == layer.attention_window.has_value())
      return i;
  }
  refuse(shape.name, "layer {} attends to keys of an earlier layer of its kind, and there is none",
         layer_index);
}

kernels::AttentionForm attention_form(const Description& description, std::int64_t layer_index,
                                      std::int64_t num_heads, HeadNumbers numbers) {
  const std::int64_t divisor = description.scale_by_layer ? layer_index + 1 : 1;
  const std::int64_t seen = description.shape.layer(layer_index).attention_window.value_or(0);
  return {.num_heads = num_heads,
          .scale = description.attention_scale / static_cast<float>(divisor),
          .softcap = description.attention_softcap,
          .window = description.chunked ? 0 : seen,
          .alibi_slopes = numbers.alibi_slopes,
          .sinks = numbers.sinks,
          .chunk = description.chunked ? seen : 0};
}

}  // namespace tessera::lm
