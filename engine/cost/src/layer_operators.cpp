#include "layer_operators.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "counts.h"

namespace tessera::cost {
namespace {

constexpr std::string_view kSharedExpert = "shared_expert.";

std::string fused_name(const std::string& name) {
  const auto ends_with = [&](std::string_view end) { return name.ends_with(end); };
  const auto prefix = name.substr(0, name.rfind('.') + 1);
  if (ends_with("q_proj") || ends_with("k_proj") || ends_with("v_proj")) return prefix + "qkv_proj";
  if (ends_with("q_a_proj") || ends_with("kv_a_proj")) return prefix + "qkv_a_proj";
  if (ends_with("gate_proj") || ends_with("up_proj")) return prefix + "gate_up_proj";
  return name;
}

}  // namespace

std::vector<LinearShape> fused(const LayerShape& layer) {
  std::vector<LinearShape> result;
  for (LinearShape linear : layer.linears) {
    linear.name = fused_name(linear.name);
    const auto same = std::find_if(result.begin(), result.end(), [&](const LinearShape& other) {
      return other.name == linear.name && other.in_features == linear.in_features &&
             other.num_copies == linear.num_copies && other.num_holders == linear.num_holders;
    });
    if (same == result.end()) {
      result.push_back(linear);
    } else {
      same->out_features += linear.out_features;
    }
  }
  return result;
}

double elementwise_bytes(const LayerShape& layer, double rows) {
  // All kinds of layers begin with a matrix of the hidden state.
  const double hidden = layer.linears.empty() ? 0 : count(layer.linears.front().in_features);
  double ffn = 0, gates = 1;
  for (const LinearShape& linear : layer.linears) {
    if (linear.name.ends_with("gate_proj")) gates = 2;
    if (linear.name.ends_with("down_proj")) {
      ffn += count(linear.in_features) * linear.mean_active();
    }
  }
  const double rotary = 2 * count(layer.head_dim) * count(layer.num_heads + layer.num_kv_heads);
  return rows * kFp16Bytes * ((4 + 6) * hidden + (1 + gates) * ffn + rotary);
}

bool is_of_state(const LinearShape& linear) {
  for (const char* mixer : {"mamba.", "linear_attn.", "conv."}) {
    if (linear.name.starts_with(mixer)) return true;
  }
  return false;
}

bool is_plain(const LayerShape& layer) {
  return layer.attends() && !layer.latent_width && !layer.state && !layer.shares_kv &&
         !layer.value_dim && !is_spread(layer);
}

bool sees_some(const LayerShape& layer) {
  return layer.attention_window.has_value() || layer.index_tokens.has_value();
}

std::int64_t num_halves(const LayerShape& layer) {
  const bool mixes = layer.attends() || layer.state;
  const bool feeds =
      std::any_of(layer.linears.begin(), layer.linears.end(), [](const auto& linear) {
        return linear.name.ends_with("down_proj") || linear.name.ends_with("fc2");
      });
  return mixes && feeds ? 2 : 1;
}

bool has_experts(const LayerShape& layer) {
  return std::any_of(layer.linears.begin(), layer.linears.end(), is_expert);
}

bool is_spread(const LayerShape& layer) {
  return std::any_of(layer.linears.begin(), layer.linears.end(),
                     [](const LinearShape& linear) { return linear.num_holders > 1; });
}

LayerShape without_experts(LayerShape layer) {
  std::erase_if(layer.linears, is_expert);
  return layer;
}

LayerShape experts_alone(LayerShape layer) {
  std::erase_if(layer.linears, [](const LinearShape& linear) { return !is_expert(linear); });
  return layer;
}

std::optional<OpQuery> experts_query(const LayerShape& layer, double rows,
                                     const std::string& dtype) {
  OpQuery query;
  query.op = Op::experts;
  query.dtype = dtype;
  query.tokens = query.batch_size = rows;
  std::set<std::string> matrices;
  for (const LinearShape& linear : layer.linears) {
    if (linear.name.starts_with(kSharedExpert)) query.routing = 0;
    if (!is_expert(linear)) continue;
    const bool down = linear.name == kExpertsDown;
    query.hidden_size = count(down ? linear.out_features : linear.in_features);
    query.inner_size = count(down ? linear.in_features : linear.out_features);
    query.num_experts = count(linear.num_copies * linear.num_holders);
    query.num_devices = static_cast<std::int32_t>(linear.num_holders);
    query.top_k = count(linear.num_active);
    matrices.insert(linear.name);
  }
  static const std::set<std::string> all = {"experts.gate_proj", "experts.up_proj", kExpertsDown};
  return matrices == all ? std::optional(query) : std::nullopt;
}

std::optional<LinearShape> router_of(const LayerShape& layer) {
  for (const LinearShape& linear : layer.linears) {
    if (!is_expert(linear) || linear.name == kExpertsDown) continue;
    LinearShape router;
    router.name = "router";
    router.in_features = linear.in_features;
    router.out_features = linear.num_copies * linear.num_holders;
    return router;
  }
  return std::nullopt;
}

void pad(OpQuery& experts, const KernelRule& rule) {
  if (!rule.experts_only) return;
  experts.hidden_size = padded_to(experts.hidden_size, rule.mxfp4_hidden_multiple);
  experts.inner_size = padded_to(experts.inner_size, rule.mxfp4_inner_multiple);
}

OpQuery latent_query(OpQuery of_heads, const LayerShape& layer) {
  of_heads.name = "latent";
  if (of_heads.phase == Phase::prefill) return of_heads;
  of_heads.num_kv_heads = 1;
  of_heads.head_dim = count(*layer.latent_width + *layer.rope_width) / 2;
  return of_heads;
}

}  // namespace tessera::cost
