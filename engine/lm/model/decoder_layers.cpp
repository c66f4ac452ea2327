// What a layer does, between the hidden states of before and after it.
#include <cmath>
#include <numeric>

#include "decoder_pass.h"
#include "shared.h"
#include "tessera/core/error.h"

namespace tessera::lm {

void Decoder::norm_heads(std::int64_t index, Rows2d queries, Rows2d keys, Pass& pass) const {
  const LayerParts& parts = *layers_[static_cast<std::size_t>(index)].parts;
  const std::int64_t width = shape().layer(index).head_dim;
  const auto some = [&](const NormWeights& norm, Rows2d all) {
    switch (shared_->description.qk_norm) {
      case QkNorm::none:
        return;
      case QkNorm::all_heads:
        return pass.backend.norm(norm, all, all);
      case QkNorm::head_width:
      case QkNorm::head_width_and_bias:
        for (std::int64_t h = 0; h < all.columns; h += width)
          pass.backend.norm(norm, all.part(h, width), all.part(h, width));
        return;
      case QkNorm::each_head:
        for (std::int64_t h = 0; h < all.columns; h += width) {
          NormWeights own = norm;
          own.weight = Memory(norm.weight, static_cast<float*>(norm.weight.get()) + h);
          pass.backend.norm(own, all.part(h, width), all.part(h, width));
        }
    }
  };
  some(parts.q_norm, queries);
  some(parts.k_norm, keys);
}

// Each head's query has its gate beside it: queries go together, and gates.
Rows2d Decoder::split_gates(std::int64_t index, Pass& pass) const {
  const LayerShape& shape = this->shape().layer(index);
  const std::int64_t width = shape.head_dim, columns = shared_->share.of(shape.num_heads) * width;
  if (pass.query.columns != columns) pass.query = pass.buffer(columns);
  if (pass.gate.columns != columns) pass.gate = pass.buffer(columns);
  std::vector<std::int64_t> all(static_cast<std::size_t>(pass.qkv.rows));
  std::iota(all.begin(), all.end(), 0);
  for (std::int64_t at = 0; at < columns; at += width) {
    pass.backend.gather(pass.qkv.part(2 * at, width), all, pass.query.part(at, width));
    pass.backend.gather(pass.qkv.part(2 * at + width, width), all, pass.gate.part(at, width));
  }
  return pass.query;
}

// In place of attention: each sequence goes on from the state that its last block keeps.
void Decoder::mix_by_state(std::int64_t index, Rows2d in, Rows2d out, Pass& pass) const {
  const auto& [parts, matrices] = layers_[static_cast<std::size_t>(index)];
  const StateMixer& mixer = *parts->mixer;
  const StateLinears linears = state_linears(shape().layer(index));
  const Backend& backend = pass.backend;
  if (pass.qkv.columns != mixer.columns()) pass.qkv = pass.buffer(mixer.columns());
  if (pass.attention.columns != mixer.outputs()) pass.attention = pass.buffer(mixer.outputs());
  pass.see(index, linears.in.front(), in);
  backend.multiply(*matrices->qkv, in, pass.qkv);
  backend.add_bias(parts->qkv_bias, pass.qkv);
  for (const SequenceRows& rows : pass.step.sequences) {
    const auto some = [&](Rows2d all) {
      return Rows2d{all.data + rows.first * all.stride, rows.count, all.columns, all.stride};
    };
    float* state = pass.cache.advance_state(index, rows);
    mixer.run(some(pass.qkv), state, some(pass.attention), request_.num_threads);
  }
  pass.see(index, linears.out, pass.attention);
  backend.multiply(*matrices->output, pass.attention, out);
  backend.add_bias(parts->output_bias, out);
}

void Decoder::attend(std::int64_t index, Rows2d in, Rows2d out, Pass& pass) const {
  const Description& d = shared_->description;
  const LayerShape& shape = d.shape.layer(index);
  const auto& [parts, matrices] = layers_[static_cast<std::size_t>(index)];
  const Backend& backend = pass.backend;
  const std::int64_t heads = shared_->share.of(shape.num_heads);
  const std::int64_t kv_heads = shared_->share.of(shape.num_kv_heads);
  const std::int64_t query = heads * shape.head_dim, key = kv_heads * shape.head_dim;
  const std::int64_t gate = d.output_gate ? query : 0;
  const std::int64_t columns = query + gate + 2 * key;
  if (pass.qkv.columns != columns) pass.qkv = pass.buffer(columns);
  if (pass.attention.columns != query) pass.attention = pass.buffer(query);
  pass.see(index, "q_proj", in);
  backend.multiply(*matrices->qkv, in, pass.qkv);
  backend.add_bias(parts->qkv_bias, pass.qkv);
  const Rows2d queries = d.output_gate ? split_gates(index, pass) : pass.qkv.part(0, query);
  const Rows2d keys = pass.qkv.part(query + gate, key),
               values = pass.qkv.part(query + gate + key, key);
  if (!d.qk_norm_turned) norm_heads(index, queries, keys, pass);
  if (d.clip > 0) backend.clamp(d.clip, pass.qkv);
  if (!d.rope_of_layer.empty() && d.rope_of_layer[static_cast<std::size_t>(index)] >= 0) {
    const auto rope = static_cast<std::size_t>(d.rope_of_layer[static_cast<std::size_t>(index)]);
    kernels::RopeForm form{heads, shape.head_dim, d.ropes[rope].width, d.interleaved};
    backend.rotate(form, pass.step.cos_sin[rope], queries);
    form.num_heads = kv_heads;
    backend.rotate(form, pass.step.cos_sin[rope], keys);
  }
  if (d.qk_norm_turned) norm_heads(index, queries, keys, pass);
  backend.store_kv(keys, values, pass.step.tables, pass.cache.layer(index));
  const kernels::AttentionForm form =
      attention_form(d, index, heads,
                     {.alibi_slopes = static_cast<const float*>(shared_->alibi_slopes.get()),
                      .sinks = static_cast<const float*>(parts->sinks.get())});
  backend.attention(queries, pass.step.tables, form, pass.cache.layer(index), pass.attention);
  if (d.output_gate) backend.sigmoid_gate(pass.gate, pass.attention);
  pass.see(index, "o_proj", pass.attention);
  backend.multiply(*matrices->output, pass.attention, out);
  backend.add_bias(parts->output_bias, out);
  sum_over_ranks(out, pass);
}

void Decoder::sum_over_ranks(Rows2d out, const Pass& pass) const {
  if (shared_->share.ranks == 1) return;
  const std::int64_t count = out.rows * out.columns;
  if (pass.backend.is_host())
    return request_.reducer->sum({out.data, static_cast<std::size_t>(count)});
  std::vector<float> values(static_cast<std::size_t>(count));
  pass.backend.download(out.data, count * 4, values.data());
  request_.reducer->sum(values);
  pass.backend.write(values.data(), count * 4, out.data);
}

void Decoder::run_network(const Network& network, const NetworkBias& bias, Rows2d in, Rows2d out,
                          const char* prefix, std::int64_t index, Pass& pass) const {
  const Description& d = shared_->description;
  const Backend& backend = pass.backend;
  const std::int64_t width = network.in->out_features();
  const bool gated = width == 2 * network.down->in_features();
  const bool whole = in.rows == pass.hidden.rows && prefix[0] == '\0';
  Rows2d inner = pass.inner;
  Memory own;
  if (!whole) {
    own = backend.allocate(in.rows * width * 4);
    inner = rows_of(own, in.rows, width);
  } else if (inner.columns != width) {
    inner = pass.inner = pass.buffer(width);
  }
  pass.see(index, std::string(prefix) + (gated ? "gate_proj" : "up_proj"), in);
  backend.multiply(*network.in, in, inner);
  backend.add_bias(bias.in, inner);
  if (gated && d.activation_limit > 0) {
    backend.clamped_swiglu(d.activation_limit, inner.part(0, width / 2),
                           inner.part(width / 2, width / 2));
  } else if (gated) {
    backend.gated_activation(d.activation, inner.part(0, width / 2),
                             inner.part(width / 2, width / 2));
  } else if (d.squared) {
    backend.gated_activation(d.activation, inner, inner);
  } else {
    backend.activate(d.activation, inner);
  }
  const Rows2d activated = inner.part(0, network.down->in_features());
  pass.see(index, std::string(prefix) + "down_proj", activated);
  backend.multiply(*network.down, activated, out);
  backend.add_bias(bias.down, out);
}

// Experts in the order of their index, so that a token's sum does not depend on the batch.
void Decoder::run_experts(std::int64_t index, Rows2d in, Rows2d out, Pass& pass) const {
  const auto& [parts, matrices] = layers_[static_cast<std::size_t>(index)];
  const Backend& backend = pass.backend;
  const auto num_experts = static_cast<std::int64_t>(matrices->networks.size());
  const Memory scores = backend.allocate(in.rows * num_experts * 4);
  backend.multiply(*parts->router, in, rows_of(scores, in.rows, num_experts));
  backend.add_bias(parts->router_bias, rows_of(scores, in.rows, num_experts));
  std::vector<float> host(static_cast<std::size_t>(in.rows * num_experts));
  backend.download(scores.get(), in.rows * num_experts * 4, host.data());
  const LinearShape* down = nullptr;
  for (const LinearShape& linear : shape().layer(index).linears)
    if (linear.name == "experts.down_proj") down = &linear;
  const RoutingRule& rule = shared_->description.routing;
  const Routes routes = route(host, parts->correction, num_experts, down->num_active, rule);
  backend.scale(0, out);
  for (std::int64_t expert = 0; expert < num_experts; ++expert) {
    const auto& rows = routes.rows[static_cast<std::size_t>(expert)];
    if (rows.empty()) continue;
    const auto count = static_cast<std::int64_t>(rows.size());
    const Memory gathered = backend.allocate(count * in.columns * 4),
                 given = backend.allocate(count * out.columns * 4);
    backend.gather(in, rows, rows_of(gathered, count, in.columns));
    const auto at = static_cast<std::size_t>(expert);
    run_network(matrices->networks[at], parts->biases[at], rows_of(gathered, count, in.columns),
                rows_of(given, count, out.columns), "experts.", index, pass);
    backend.scatter_add(rows_of(given, count, out.columns), rows,
                        routes.weights[static_cast<std::size_t>(expert)], out);
  }
  if (matrices->shared.empty()) return;
  const Memory given = backend.allocate(in.rows * out.columns * 4);
  run_network(matrices->shared.front(), parts->shared_bias, in,
              rows_of(given, in.rows, out.columns), "shared_expert.", index, pass);
  if (!rule.shared_gate) return backend.add(rows_of(given, in.rows, out.columns), out);
  const Memory gates = backend.allocate(in.rows * 4);
  backend.multiply(*parts->shared_gate, in, rows_of(gates, in.rows, 1));
  std::vector<float> weights(static_cast<std::size_t>(in.rows));
  backend.download(gates.get(), in.rows * 4, weights.data());
  for (float& weight : weights) weight = 1 / (1 + std::exp(-weight));
  std::vector<std::int64_t> all(weights.size());
  std::iota(all.begin(), all.end(), 0);
  backend.scatter_add(rows_of(given, in.rows, out.columns), all, weights, out);
}

void Decoder::feed_forward(std::int64_t index, Rows2d in, Rows2d out, Pass& pass) const {
  const auto& [parts, matrices] = layers_[static_cast<std::size_t>(index)];
  if (parts->router != nullptr) {
    run_experts(index, in, out, pass);
  } else {
    run_network(matrices->networks.front(), parts->biases.front(), in, out, "", index, pass);
  }
  sum_over_ranks(out, pass);
}

void Decoder::run_layer(std::int64_t index, Pass& pass) const {
  const Description& d = shared_->description;
  const LayerParts& parts = *layers_[static_cast<std::size_t>(index)].parts;
  const Backend& backend = pass.backend;
  const Rows2d x = pass.hidden, normed = pass.normed, out = pass.out;
  const bool before = d.places == NormPlaces::before || d.places == NormPlaces::both;
  const bool after = d.places == NormPlaces::after || d.places == NormPlaces::both;
  const auto read = [&](const NormWeights& norm) {
    if (before) backend.norm(norm, x, normed);
    return before ? normed : x;
  };
  const auto add = [&](const NormWeights& norm, Rows2d given) {
    if (after) backend.norm(norm, given, given);
    if (d.residual_scale != 1) backend.scale(d.residual_scale, given);
    backend.add(given, x);
  };
  Rows2d in = read(parts.attention_norm);
  if (parts.mixer != nullptr) {
    mix_by_state(index, in, out, pass);
  } else {
    attend(index, in, out, pass);
  }
  if (d.parallel) {
    if (pass.second.columns == 0) pass.second = pass.buffer(x.columns);
    if (!d.shared_norm) in = read(parts.ffn_norm);
    feed_forward(index, in, pass.second, pass);
    backend.add(pass.second, out);
    return add({}, out);
  }
  add(parts.attention_post_norm, out);
  if (d.places == NormPlaces::after_sums) backend.norm(parts.attention_norm, x, x);
  feed_forward(index, read(parts.ffn_norm), out, pass);
  add(parts.ffn_post_norm, out);
  if (d.places == NormPlaces::after_sums) backend.norm(parts.ffn_norm, x, x);
}

}  // namespace tessera::lm
