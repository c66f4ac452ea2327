#include "work.h"

#include <algorithm>
#include <cmath>

#include "counts.h"
#include "expert_loads.h"
#include "layer_operators.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::cost {
namespace {

struct NamedTraits {
  const char* name;
  DtypeTraits traits;
};

// Floats of four and eight bits with the scales that they share: an FP8 number for 16 of them in
// NVFP4, an exponent of 8 bits for 32 in the formats of OCP (MXFP4, MXFP8).
constexpr double kNvfp4 = 4 + 8.0 / 16, kMxfp4 = 4 + 8.0 / 32, kMxfp8 = 8 + 8.0 / 32;

const std::vector<NamedTraits>& traits_table() {
  static const std::vector<NamedTraits> table = {{"float16", {16, 16, "fp16"}},
                                                 {"bfloat16", {16, 16, "fp16"}},
                                                 {"int8_wo", {8, 16, "fp16"}},
                                                 {"int4_wo", {4, 16, "fp16"}},
                                                 {"sq", {8, 8, "int8"}},
                                                 {"fp8", {8, 8, "fp8"}},
                                                 {"fp8_static", {8, 8, "fp8"}},
                                                 {"fp8_block", {8, 8, "fp8"}},
                                                 {"nvfp4", {kNvfp4, kNvfp4, "fp4"}},
                                                 {"w4a16_mxfp4", {kMxfp4, 16, "fp16"}},
                                                 {"w4a8_mxfp4_mxfp8", {kMxfp4, kMxfp8, "fp8"}}};
  return table;
}

double rate_of(const Device& device, const std::string& dtype) {
  const auto it = device.flop_per_s.find(dtype);
  return it != device.flop_per_s.end() ? it->second : device.flop_per_s.at("fp16");
}

double index_heads(const LayerShape& layer) {
  for (const LinearShape& linear : layer.linears) {
    if (linear.name == "indexer.weights_proj") return count(linear.out_features);
    if (linear.name == "indexer.q_proj")
      return count(linear.out_features) / count(*layer.index_width);
  }
  return 0;
}

OpWork gemm_work(const Device& device, const OpQuery& q) {
  const DtypeTraits traits = dtype_traits(q.dtype);
  OpWork work;
  work.flop = 2 * q.m * q.n * q.k;
  work.bytes = q.n * q.k * traits.weight_bits / 8 + q.m * q.k * traits.activation_bits / 8 +
               q.m * q.n * kFp16Bytes;
  work.flop_per_s = rate_of(device, traits.compute_dtype);
  return work;
}

OpWork attention_op_work(const Device& device, const OpQuery& q) {
  const std::string& kv = q.kv_dtype.empty() ? q.dtype : q.kv_dtype;
  const AttentionWork attention =
      attention_work({q.num_heads, q.num_kv_heads, q.head_dim, q.window},
                     dtype_traits(kv).activation_bits, q.batch_size, q.tokens, q.context_tokens);
  return {attention.flop, attention.bytes, rate_of(device, dtype_traits(q.dtype).compute_dtype)};
}

// Hidden states of the rows are read and written once, however many of a row's experts are here.
OpWork experts_work(const Device& device, const OpQuery& q) {
  const DtypeTraits traits = dtype_traits(q.dtype);
  const ExpertLoads loads(q);
  const double weights = kMatricesOfExpert * q.hidden_size * q.inner_size;
  OpWork work;
  work.flop = 2 * loads.rows() * weights;
  work.bytes =
      loads.touched() * weights * traits.weight_bits / 8 +
      std::min(q.tokens, loads.rows()) * q.hidden_size * (traits.activation_bits / 8 + kFp16Bytes);
  work.flop_per_s = rate_of(device, traits.compute_dtype);
  return work;
}

// Every token passes through the active copies; all the rows together read at most all of them.
OpWork layer_work(const Device& device, const OpQuery& q) {
  const LayerShape& layer = *q.layer;
  const double rows = q.batch_size * q.tokens;
  const AttentionWork attention =
      attention_work(attention_shape(layer), 16, q.batch_size, q.tokens, q.context_tokens);
  const AttentionWork state = state_work(layer, q.batch_size, q.tokens);
  OpWork work{attention.flop + state.flop, attention.bytes + state.bytes, rate_of(device, "fp16")};
  for (const LinearShape& linear : layer.linears) {
    const double copies = std::min(count(linear.num_copies), rows * count(linear.num_active));
    work.flop += 2 * rows * count(linear.active_parameters());
    work.bytes += copies * count(linear.in_features * linear.out_features) * q.bitwidth / 8 +
                  rows * count(linear.num_active) *
                      count(linear.in_features + linear.out_features) * kFp16Bytes;
  }
  return work;
}

}  // namespace

double causal_pairs(double tokens, double context, double window) {
  const double uncut = std::clamp(window - context - 0.5, 0.0, tokens);
  return uncut * (context + 0.5) + uncut * uncut / 2 + (tokens - uncut) * window;
}

double copies_touched(const LinearShape& linear, double rows) {
  const double copies = count(linear.num_copies);
  const double missed = 1 - linear.mean_active() / copies;
  return copies * (1 - std::pow(missed, rows));
}

AttentionShape attention_shape(const LayerShape& layer) {
  return {count(layer.num_heads),
          count(layer.num_kv_heads),
          count(layer.head_dim),
          layer.attention_window ? count(*layer.attention_window) : 0,
          layer.latent_width ? count(*layer.latent_width) : 0,
          layer.rope_width ? count(*layer.rope_width) : 0,
          count(layer.value_width()),
          layer.index_width ? index_heads(layer) : 0,
          layer.index_width ? count(*layer.index_width) : 0,
          layer.index_tokens ? count(*layer.index_tokens) : 0,
          layer.tokens_per_entry ? count(*layer.tokens_per_entry) : 0};
}

AttentionRates attention_rates(const Device& device, const KernelSet& kernels) {
  const KernelRule* rule = kernels.find(device, 16);
  const double memory_ratio =
      rule == nullptr ? kernels.attention_memory_ratio
                      : rule->attention_memory_ratio.value_or(kernels.attention_memory_ratio);
  return {device.flop_per_s.at("fp16") * kernels.attention_flop_ratio,
          device.memory_bytes_per_s * memory_ratio};
}

AttentionWork attention_work(const AttentionShape& shape, double kv_bits, double batch_size,
                             double tokens, double context_tokens) {
  const double query_width = shape.num_heads * shape.head_dim;
  double pairs = tokens * (context_tokens + (tokens + 1) / 2);
  double visible = context_tokens;
  if (shape.window > 0) {
    pairs = causal_pairs(tokens, context_tokens, shape.window);
    visible = std::min(visible, std::max(shape.window - 1, 0.0));
  }
  const double value_dim = shape.value_dim > 0 ? shape.value_dim : shape.head_dim;
  double scored = pairs, index_keys = context_tokens + 2 * tokens;
  if (shape.tokens_per_entry > 0) {
    const double per = shape.tokens_per_entry, all = context_tokens + tokens + 1;
    const double most = shape.index_tokens > 0 ? std::min(shape.index_tokens * per, all) : all;
    pairs += causal_pairs(tokens, context_tokens, most) / per;
    visible += (std::min(context_tokens, most) + 2 * tokens) / per;
    scored = causal_pairs(tokens, context_tokens, all) / per;
    index_keys /= per;
  } else if (shape.index_tokens > 0) {
    pairs = causal_pairs(tokens, context_tokens, shape.index_tokens);
    visible = std::min(visible, shape.index_tokens);
  }
  double flop = 2 * shape.num_heads * (shape.head_dim + value_dim) * pairs;
  double kv_values = shape.num_kv_heads * (shape.head_dim + value_dim);
  if (shape.latent_width > 0) {
    const double made = 2 * query_width - 2 * shape.num_heads * shape.rope_width;  // per old token
    const double on_latents = 2 * shape.num_heads * (2 * shape.latent_width + shape.rope_width);
    flop = std::min(on_latents * pairs, flop + 2 * shape.latent_width * made * context_tokens);
    kv_values = shape.latent_width + shape.rope_width;
  }
  flop += 2 * shape.index_heads * shape.index_width * scored;
  const double kv_token_bytes = kv_values * kv_bits / 8;
  const double index_bytes = shape.index_width * index_keys * kv_bits / 8;
  return {flop * batch_size, batch_size * ((visible + 2 * tokens) * kv_token_bytes + index_bytes +
                                           2 * tokens * query_width * kFp16Bytes)};
}

AttentionWork state_work(const LayerShape& layer, double batch_size, double tokens) {
  if (!layer.state) return {};
  constexpr double kOperations = 6, kReadAndWritten = 2;
  double channels = 0;
  for (const LinearShape& linear : layer.linears) {
    if (is_of_state(linear)) channels += count(linear.out_features);
  }
  return {kOperations * count(layer.state->recurrent_values) * batch_size * tokens,
          batch_size * kReadAndWritten * (layer.state->bytes() + tokens * channels * kFp16Bytes)};
}

DtypeTraits dtype_traits(std::string_view dtype) {
  for (const NamedTraits& entry : traits_table()) {
    if (dtype == entry.name) return entry.traits;
  }
  throw Error(ErrorCode::invalid_argument,
              "unknown dtype " + quote(dtype) + did_you_mean(dtype, known_dtypes()), "dtype");
}

std::vector<std::string> known_dtypes() {
  std::vector<std::string> names;
  for (const NamedTraits& entry : traits_table()) names.emplace_back(entry.name);
  return names;
}

OpWork work_of(const Device& device, const OpQuery& query) {
  check_query(query);
  OpWork work;
  switch (query.op) {
    case Op::gemm:
      work = gemm_work(device, query);
      break;
    case Op::attention:
      work = attention_op_work(device, query);
      break;
    case Op::experts:
      work = experts_work(device, query);
      break;
    case Op::layer:
      work = layer_work(device, query);
      break;
    case Op::elementwise:
    case Op::all_reduce:
    case Op::all_gather:
    case Op::reduce_scatter:
    case Op::all_to_all:
    case Op::send_recv:
      work = {0, query.bytes, rate_of(device, "fp16")};
      break;
  }
  work.bytes_per_s = device.memory_bytes_per_s;
  return work;
}

}  // namespace tessera::cost
