#include "mixers.h"

#include <fmt/format.h>

namespace tessera::hf {
namespace {

constexpr SizeRange kHalfHead{kHeadDimRange.low, kHeadDimRange.high / 2};

std::int64_t convolution_parameters(std::int64_t channels, std::int64_t kernel, bool bias) {
  return channels * kernel + (bias ? channels : 0);
}

}  // namespace

LatentAttention read_latent_attention(Config& config, bool query_rank_is_optional) {
  LatentAttention attention;
  attention.query_rank = config.optional_size({"q_lora_rank"}, kSizeRange);
  if (!config.written("q_lora_rank") && !query_rank_is_optional) {
    config.fail("q_lora_rank", "missing; an integer, or null for queries without a latent");
  }
  attention.rank = config.size({"kv_lora_rank"}, kHeadDimRange);
  attention.plain = config.size({"qk_nope_head_dim"}, kHalfHead);
  attention.rope = config.size({"qk_rope_head_dim"}, kHalfHead);
  attention.value = config.size({"v_head_dim"}, kHalfHead);
  return attention;
}

void read_indexer(Config& config, LatentAttention& attention) {
  if (!attention.query_rank) config.fail("q_lora_rank", "an indexer needs the latent of queries");
  attention.index_heads = config.size({"index_n_heads"}, kHeadsRange);
  attention.index_width = config.size({"index_head_dim"}, kHalfHead);
  attention.index_tokens = config.size({"index_topk"}, kTokensRange);
}

void add_latent_attention(const LayerDesign& design, const LatentAttention& attention,
                          LayerShape& layer) {
  const std::int64_t hidden = design.hidden_size, heads = design.num_heads;
  const std::int64_t query = heads * attention.head_dim();
  layer.num_heads = layer.num_kv_heads = heads;
  layer.head_dim = attention.head_dim();
  layer.latent_width = attention.rank;
  layer.rope_width = attention.rope;
  if (attention.query_rank) {
    layer.linears.push_back({"q_a_proj", hidden, *attention.query_rank});
    layer.linears.push_back({"q_b_proj", *attention.query_rank, query});
  } else {
    layer.linears.push_back({"q_proj", hidden, query});
  }
  layer.linears.push_back({"kv_a_proj", hidden, attention.rank + attention.rope});
  layer.linears.push_back(
      {"kv_b_proj", attention.rank, heads * (attention.plain + attention.value)});
  layer.linears.push_back({"o_proj", heads * attention.value, hidden});
  layer.other_parameters += attention.query_rank.value_or(0) + attention.rank;
  if (attention.bias) {
    layer.other_parameters +=
        attention.query_rank.value_or(0) + attention.rank + attention.rope + hidden;
  }
  if (attention.index_tokens == 0) return;
  layer.index_tokens = attention.index_tokens;
  if (attention.shares_index) return;
  layer.index_width = attention.index_width;
  layer.linears.push_back({"indexer.wq_b", attention.query_rank.value_or(hidden),
                           attention.index_heads * attention.index_width});
  layer.linears.push_back({"indexer.wk", hidden, attention.index_width});
  layer.linears.push_back({"indexer.weights_proj", hidden, attention.index_heads});
  layer.other_parameters += 2 * attention.index_width;  // a LayerNorm of the keys
}

void add_mamba(const LayerDesign& design, const Mamba& mamba, LayerShape& layer) {
  const std::int64_t hidden = design.hidden_size;
  layer.linears.push_back({"mamba.in_proj", hidden, 2 * mamba.inner});
  layer.linears.push_back({"mamba.x_proj", mamba.inner, mamba.rank + 2 * mamba.state});
  layer.linears.push_back({"mamba.dt_proj", mamba.rank, mamba.inner});
  layer.linears.push_back({"mamba.out_proj", mamba.inner, hidden});
  layer.other_parameters += convolution_parameters(mamba.inner, mamba.kernel, mamba.conv_bias);
  // What forgets, what goes past the state, and the bias of the time step.
  layer.other_parameters += mamba.inner * mamba.state + mamba.inner + mamba.inner;
  if (mamba.norms) layer.other_parameters += mamba.rank + 2 * mamba.state;
  if (mamba.bias) layer.other_parameters += 2 * mamba.inner + hidden;
  layer.state = LayerState{.kind = StateKind::mamba,
                           .num_heads = mamba.inner,
                           .recurrent_values = mamba.inner * mamba.state,
                           .convolution_values = mamba.inner * (mamba.kernel - 1)};
}

void add_mamba2(const LayerDesign& design, const Mamba2& mamba, LayerShape& layer) {
  const std::int64_t hidden = design.hidden_size;
  const std::int64_t inner = mamba.num_heads * mamba.head_dim;
  const std::int64_t channels = inner + 2 * mamba.num_groups * mamba.state;
  const std::int64_t in = inner + channels + mamba.num_heads;
  layer.linears.push_back({"mamba.in_proj", hidden, in});
  layer.linears.push_back({"mamba.out_proj", inner, hidden});
  layer.other_parameters += convolution_parameters(channels, mamba.kernel, mamba.conv_bias);
  // Of each head: what forgets, what goes past the state, and the bias of the time step.
  layer.other_parameters += 3 * mamba.num_heads;
  if (mamba.norm) layer.other_parameters += inner;
  if (mamba.in_bias) layer.other_parameters += in;
  if (mamba.out_bias) layer.other_parameters += hidden;
  layer.state = LayerState{.kind = StateKind::mamba2,
                           .num_heads = mamba.num_heads,
                           .recurrent_values = inner * mamba.state,
                           .convolution_values = channels * (mamba.kernel - 1)};
}

Mamba2 read_mamba2(Config& config, std::int64_t inner, std::int64_t default_heads,
                   std::int64_t default_state) {
  Mamba2 mamba;
  mamba.num_heads = config.size({"mamba_n_heads"}, kHeadsRange, default_heads);
  const Json* width = config.find("mamba_d_head");
  const bool is_auto = width == nullptr || *width == "auto";
  mamba.head_dim = is_auto ? inner / mamba.num_heads : config.size({"mamba_d_head"}, kHeadDimRange);
  if (mamba.num_heads * mamba.head_dim != inner) {
    config.fail("mamba_d_head", fmt::format("{} heads of {} are not the {} channels of the mixer",
                                            mamba.num_heads, mamba.head_dim, inner));
  }
  mamba.num_groups = config.size({"mamba_n_groups"}, kHeadsRange, 1);
  mamba.state = config.size({"mamba_d_state"}, kHeadDimRange, default_state);
  mamba.kernel = config.size({"mamba_d_conv"}, kKernelRange, 4);
  mamba.conv_bias = config.flag("mamba_conv_bias", true);
  mamba.in_bias = mamba.out_bias = config.flag("mamba_proj_bias", false);
  return mamba;
}

DeltaNet read_delta_net(Config& config) {
  DeltaNet net;
  net.num_key_heads = config.size({"linear_num_key_heads"}, kHeadsRange, 16);
  net.num_value_heads = config.size({"linear_num_value_heads"}, kHeadsRange, 32);
  net.key_dim = config.size({"linear_key_head_dim"}, kHalfHead, 128);
  net.value_dim = config.size({"linear_value_head_dim"}, kHalfHead, 128);
  net.kernel = config.size({"linear_conv_kernel_dim"}, kKernelRange, 4);
  if (net.num_value_heads % net.num_key_heads != 0) {
    config.fail("linear_num_value_heads",
                fmt::format("{} value heads do not split evenly over {} key heads",
                            net.num_value_heads, net.num_key_heads));
  }
  return net;
}

void add_delta_net(const LayerDesign& design, const DeltaNet& net, LayerShape& layer) {
  const std::int64_t hidden = design.hidden_size;
  const std::int64_t keys = net.num_key_heads * net.key_dim;
  const std::int64_t values = net.num_value_heads * net.value_dim;
  const std::int64_t channels = 2 * keys + values;
  layer.linears.push_back({"linear_attn.in_proj_qkvz", hidden, channels + values});
  layer.linears.push_back({"linear_attn.in_proj_ba", hidden, 2 * net.num_value_heads});
  layer.linears.push_back({"linear_attn.out_proj", values, hidden});
  layer.other_parameters += convolution_parameters(channels, net.kernel, false);
  // Of each head what forgets and the bias of its step, and a norm that the heads share.
  layer.other_parameters += 2 * net.num_value_heads + net.value_dim;
  layer.state = LayerState{.kind = StateKind::gated_delta_net,
                           .num_heads = net.num_key_heads,
                           .recurrent_values = net.num_value_heads * net.key_dim * net.value_dim,
                           .convolution_values = channels * (net.kernel - 1)};
}

void add_kimi_delta(const LayerDesign& design, const DeltaNet& net, LayerShape& layer) {
  const std::int64_t hidden = design.hidden_size;
  const std::int64_t width = net.num_value_heads * net.value_dim;
  for (const char* name : {"q_proj", "k_proj", "v_proj"})
    layer.linears.push_back({std::string("linear_attn.") + name, hidden, width});
  for (const char* gate : {"f", "g"}) {
    layer.linears.push_back({fmt::format("linear_attn.{}_a_proj", gate), hidden, net.value_dim});
    layer.linears.push_back({fmt::format("linear_attn.{}_b_proj", gate), net.value_dim, width});
  }
  layer.linears.push_back({"linear_attn.b_proj", hidden, net.num_value_heads});
  layer.linears.push_back({"linear_attn.o_proj", width, hidden});
  layer.other_parameters += convolution_parameters(3 * width, net.kernel, false);
  layer.other_parameters += width + net.num_value_heads + net.value_dim;
  layer.state = LayerState{.kind = StateKind::gated_delta_net,
                           .num_heads = net.num_value_heads,
                           .recurrent_values = width * net.value_dim,
                           .convolution_values = 3 * width * (net.kernel - 1)};
}

void add_lightning_attention(const LayerDesign& design, LayerShape& layer) {
  const std::int64_t hidden = design.hidden_size;
  const std::int64_t width = design.num_heads * design.head_dim;
  layer.linears.push_back({"linear_attn.qkv_proj", hidden, 3 * width});
  layer.linears.push_back({"linear_attn.output_gate", hidden, width});
  layer.linears.push_back({"linear_attn.out_proj", width, hidden});
  layer.other_parameters += width;  // a norm before the output
  layer.state = LayerState{.kind = StateKind::linear_attention,
                           .num_heads = design.num_heads,
                           .recurrent_values = width * design.head_dim};
}

void add_short_convolution(const LayerDesign& design, std::int64_t kernel, bool bias,
                           LayerShape& layer) {
  const std::int64_t hidden = design.hidden_size;
  layer.linears.push_back({"conv.in_proj", hidden, 3 * hidden});
  layer.linears.push_back({"conv.out_proj", hidden, hidden});
  layer.other_parameters += convolution_parameters(hidden, kernel, bias);
  if (bias) layer.other_parameters += 4 * hidden;
  layer.state = LayerState{.kind = StateKind::short_convolution,
                           .num_heads = hidden,
                           .convolution_values = hidden * (kernel - 1)};
}

}  // namespace tessera::hf
