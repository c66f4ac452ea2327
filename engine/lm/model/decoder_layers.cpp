// What a layer does, between the hidden states of before and after it.
#include <algorithm>
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
      case QkNorm::head_alone:
        if (!turns(shared_->description, index)) return;
        [[fallthrough]];
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
  if (keys.columns > 0) some(parts.k_norm, keys);
}

void Decoder::copy(Rows2d from, Rows2d to, const Pass& pass) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(from.rows));
  std::iota(all.begin(), all.end(), 0);
  pass.backend.gather(from, all, to);
}

// Each head's query has its gate beside it: queries go together, and gates.
Rows2d Decoder::split_gates(std::int64_t index, Rows2d both, Pass& pass) const {
  const LayerShape& shape = this->shape().layer(index);
  const std::int64_t width = shape.head_dim, columns = shared_->share.of(shape.num_heads) * width;
  const Rows2d query = pass.in(pass.query, columns), gate = pass.in(pass.gate, columns);
  for (std::int64_t at = 0; at < columns; at += width) {
    copy(both.part(2 * at, width), query.part(at, width), pass);
    copy(both.part(2 * at + width, width), gate.part(at, width), pass);
  }
  return query;
}

// Each sequence goes on from the state that its last block keeps.
void Decoder::mix_by_state(std::int64_t index, Rows2d in, Rows2d out, Pass& pass) const {
  const auto& [parts, matrices] = layers_[static_cast<std::size_t>(index)];
  const StateMixer& mixer = *parts->mixer;
  const StateLinears linears = state_linears(shape().layer(index));
  const Backend& backend = pass.backend;
  const Rows2d read = pass.in(pass.qkv, mixer.columns());
  const Rows2d made = pass.in(pass.attention, mixer.outputs());
  pass.see(index, linears.in.front(), in);
  backend.multiply(*matrices->state.in, in, read);
  scale(shared_->description.state_in_scale, read, pass);
  backend.add_bias(parts->state_in_bias, read);
  scale_parts(read, pass);
  MixerTools tools{
      .inner = matrices->state.inner, .see = nullptr, .num_threads = request_.num_threads};
  if (pass.observer != nullptr)
    tools.see = [&](std::size_t i, Rows2d rows) { pass.see(index, linears.inner[i], rows); };
  for (const SequenceRows& rows : pass.step.sequences) {
    const auto some = [&](Rows2d all) {
      return Rows2d{all.data + rows.first * all.stride, rows.count, all.columns, all.stride};
    };
    mixer.run(some(read), pass.cache.advance_state(index, rows), some(made), tools);
  }
  pass.see(index, linears.out, made);
  backend.multiply(*matrices->state.out, made, out);
  backend.add_bias(parts->state_out_bias, out);
  scale(shared_->description.state_out_scale, out, pass);
}

void Decoder::scale(float factor, Rows2d x, const Pass& pass) {
  if (factor != 1) pass.backend.scale(factor, x);
}

// Each row by a factor of its own.
void Decoder::scale_rows(std::span<const float> factors, Rows2d x, const Pass& pass) {
  for (std::int64_t row = 0; row < x.rows; ++row)
    scale(factors[static_cast<std::size_t>(row)], {x.data + row * x.stride, 1, x.columns, x.stride},
          pass);
}

// The entropy of scores over ever more tokens stays (Llama 4; Nakanishi, arXiv:2501.19399).
void Decoder::temper(std::int64_t index, Rows2d queries, const Pass& pass) const {
  const Description& d = shared_->description;
  if (d.temperature.tokens == 0 || turns(d, index)) return;
  std::vector<float> factors;
  for (const std::int32_t position : pass.step.positions) {
    const double whole = std::floor((position + 1) / d.temperature.tokens);
    factors.push_back(static_cast<float>(1 + d.temperature.slope * std::log1p(whole)));
  }
  scale_rows(factors, queries, pass);
}

// Of what the first matrix of Mamba 2 gives.
void Decoder::scale_parts(Rows2d read, const Pass& pass) const {
  const Description& d = shared_->description;
  if (d.state_part_scales.empty()) return;
  const auto& mamba = std::get<Mamba2>(*d.state);
  const std::int64_t keys = mamba.num_groups * mamba.state;
  const std::int64_t widths[] = {mamba.inner(), mamba.inner(), keys, keys, mamba.num_heads};
  std::int64_t first = 0;
  for (std::size_t i = 0; i < std::size(widths); first += widths[i++])
    scale(d.state_part_scales[i], read.part(first, widths[i]), pass);
}

void Decoder::turn(std::int64_t index, std::int64_t num_heads, std::int64_t head_dim, Rows2d heads,
                   const Pass& pass) const {
  const Description& d = shared_->description;
  if (!turns(d, index)) return;
  const auto rope = static_cast<std::size_t>(d.rope_of_layer[static_cast<std::size_t>(index)]);
  pass.backend.rotate({num_heads, head_dim, d.ropes[rope].width, d.interleaved},
                      pass.step.cos_sin[rope], heads);
}

// Keys that are values as well, before they are normed and turned; as far apart as the keys.
Rows2d Decoder::copy_of(Rows2d keys, Pass& pass) {
  const Rows2d room = pass.in(pass.values, keys.stride);
  const Rows2d values{room.data, keys.rows, keys.columns, keys.stride};
  copy(keys, values, pass);
  return values;
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
  const std::int64_t made = shape.shares_kv ? 0 : has_linear(shape, "v_proj") ? 2 : 1;
  const Rows2d qkv = pass.in(pass.qkv, query + gate + made * key);
  const Rows2d attention = pass.in(pass.attention, query);
  pass.see(index, "q_proj", in);
  backend.multiply(*matrices->qkv, in, qkv);
  scale(d.attention_in_scale, qkv, pass);
  backend.add_bias(parts->qkv_bias, qkv);
  const Rows2d queries = d.output_gate ? split_gates(index, qkv, pass) : qkv.part(0, query);
  const Rows2d keys = qkv.part(query + gate, made > 0 ? key : 0);
  const Rows2d values = made == 2   ? qkv.part(query + gate + key, key)
                        : made == 1 ? copy_of(keys, pass)
                                    : Rows2d{};
  scale(d.key_scale, keys, pass);
  if (!d.qk_norm_turned) norm_heads(index, queries, keys, pass);
  if (d.clip > 0) backend.clamp(d.clip, qkv);
  turn(index, heads, shape.head_dim, queries, pass);
  if (made > 0) turn(index, kv_heads, shape.head_dim, keys, pass);
  if (d.qk_norm_turned) norm_heads(index, queries, keys, pass);
  temper(index, queries, pass);
  for (std::int64_t h = 0; d.value_norm && h < values.columns; h += shape.head_dim) {
    const Rows2d head = values.part(h, shape.head_dim);
    backend.norm(parts->v_norm, head, head);
  }
  if (made > 0) backend.store_kv(keys, values, pass.step.tables, pass.cache.layer(index));
  const kernels::AttentionForm form =
      attention_form(d, index, heads,
                     {.alibi_slopes = static_cast<const float*>(shared_->alibi_slopes.get()),
                      .sinks = static_cast<const float*>(parts->sinks.get())});
  backend.attention(queries, pass.step.tables, form, pass.cache.layer(index), attention);
  if (d.output_gate) backend.sigmoid_gate(pass.in(pass.gate, query), attention);
  pass.see(index, "o_proj", attention);
  backend.multiply(*matrices->output, attention, out);
  backend.add_bias(parts->output_bias, out);
  scale(d.attention_out_scale, out, pass);
  sum_over_ranks(out, pass);
}

// The cache has a latent and a key that turns of each token, as one head that all queries read;
// its keys are its values.
void Decoder::attend_to_latents(std::int64_t index, Rows2d in, Rows2d out, Pass& pass) const {
  const LayerShape& shape = this->shape().layer(index);
  const auto& [parts, matrices] = layers_[static_cast<std::size_t>(index)];
  const Backend& backend = pass.backend;
  const LatentWidths widths = *latent_widths(shape);
  const std::int64_t heads = shape.num_heads;
  const std::int64_t first = matrices->qkv->out_features() - widths.kept();
  const Rows2d qkv = pass.in(pass.qkv, first + widths.kept());
  pass.see(index, matrices->query ? "q_a_proj" : "q_proj", in);
  backend.multiply(*matrices->qkv, in, qkv);
  backend.add_bias(parts->qkv_bias, qkv);
  Rows2d queries = qkv.part(0, first);
  if (matrices->query != nullptr) {
    backend.norm(parts->query_latent_norm, queries, queries);
    pass.see(index, "q_b_proj", queries);
    const Rows2d made = pass.in(pass.query, heads * shape.head_dim);
    backend.multiply(*matrices->query, queries, made);
    queries = made;
  }
  const Rows2d kept = qkv.part(first, widths.kept()), latent = qkv.part(first, widths.rank);
  backend.norm(parts->latent_norm, latent, latent);
  pass.see(index, "kv_b_proj", latent);
  turn(index, heads, shape.head_dim, queries.part(widths.plain, queries.columns - widths.plain),
       pass);
  turn(index, 1, widths.rope, qkv.part(first + widths.rank, widths.rope), pass);
  backend.store_kv(kept, kept, pass.step.tables, pass.cache.layer(index));
  const Rows2d absorbed = pass.in(pass.absorbed, heads * widths.kept());
  const Rows2d read = pass.in(pass.read, heads * widths.kept());
  matrices->latent_heads->absorb(queries, absorbed, request_.num_threads);
  backend.attention(absorbed, pass.step.tables,
                    attention_form(shared_->description, index, heads, {}), pass.cache.layer(index),
                    read);
  const Rows2d attention = pass.in(pass.attention, heads * widths.value);
  matrices->latent_heads->expand(read, attention, request_.num_threads);
  pass.see(index, "o_proj", attention);
  backend.multiply(*matrices->output, attention, out);
  backend.add_bias(parts->output_bias, out);
}

void Decoder::mix(std::int64_t index, Rows2d in, Rows2d out, Pass& pass) const {
  const LayerShape& shape = this->shape().layer(index);
  if (shape.latent_width) {
    attend_to_latents(index, in, out, pass);
  } else if (shape.attends()) {
    attend(index, in, out, pass);
  }
  if (!shape.state) return;
  if (!shape.attends()) return mix_by_state(index, in, out, pass);
  const Rows2d second = pass.in(pass.second, out.columns);
  mix_by_state(index, in, second, pass);
  pass.backend.add(second, out);
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
  Memory own;
  if (!whole) own = backend.allocate(in.rows * width * 4);
  const Rows2d inner = whole ? pass.in(pass.inner, width) : rows_of(own, in.rows, width);
  pass.see(index, std::string(prefix) + (gated ? "gate_proj" : "up_proj"), in);
  backend.multiply(*network.in, in, inner);
  backend.add_bias(bias.in, inner);
  if (gated) scale(d.gate_scale, inner.part(0, width / 2), pass);
  if (!d.gate_spread.empty() && d.gate_spread[static_cast<std::size_t>(index)])
    open_above(*d.gate_spread[static_cast<std::size_t>(index)], inner.part(0, width / 2));
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
  scale(d.down_scale, out, pass);
}

// Experts in the order of their index, so that a token's sum does not depend on the batch.
void Decoder::run_experts(std::int64_t index, Rows2d routed_by, Rows2d in, Rows2d out,
                          Pass& pass) const {
  const auto& [parts, matrices] = layers_[static_cast<std::size_t>(index)];
  const Backend& backend = pass.backend;
  const auto num_experts = static_cast<std::int64_t>(matrices->networks.size());
  const Memory scores = backend.allocate(in.rows * num_experts * 4);
  backend.multiply(*parts->router, routed_by, rows_of(scores, in.rows, num_experts));
  backend.add_bias(parts->router_bias, rows_of(scores, in.rows, num_experts));
  std::vector<float> host(static_cast<std::size_t>(in.rows * num_experts));
  backend.download(scores.get(), in.rows * num_experts * 4, host.data());
  const LinearShape* down = nullptr;
  for (const LinearShape& linear : shape().layer(index).linears)
    if (linear.name == "experts.down_proj") down = &linear;
  const RoutingRule& rule = shared_->description.routing;
  Routes routes = route(host, parts->correction, num_experts, down->num_active, rule);
  for (std::size_t e = 0; e < parts->expert_scale.size(); ++e)
    for (float& weight : routes.weights[e]) weight *= parts->expert_scale[e];
  // Experts may lie in a space of their own.
  const bool apart = matrices->into_experts != nullptr;
  const std::int64_t width = apart ? matrices->into_experts->out_features() : in.columns;
  Memory read_memory, sum_memory;
  Rows2d read = in, sum = out;
  if (apart) {
    read_memory = backend.allocate(in.rows * width * 4);
    sum_memory = backend.allocate(in.rows * width * 4);
    read = rows_of(read_memory, in.rows, width);
    sum = rows_of(sum_memory, in.rows, width);
    pass.see(index, "latent.in_proj", in);
    backend.multiply(*matrices->into_experts, in, read);
    backend.add_bias(parts->into_experts_bias, read);
  }
  const std::vector<float> zeros(static_cast<std::size_t>(sum.rows * sum.columns));
  backend.write(zeros.data(), std::ssize(zeros) * 4, sum.data);
  for (std::int64_t expert = 0; expert < num_experts; ++expert) {
    const auto& rows = routes.rows[static_cast<std::size_t>(expert)];
    if (rows.empty()) continue;
    const auto count = static_cast<std::int64_t>(rows.size());
    const Memory gathered = backend.allocate(count * width * 4),
                 given = backend.allocate(count * width * 4);
    backend.gather(read, rows, rows_of(gathered, count, width));
    const auto at = static_cast<std::size_t>(expert);
    std::vector<float>& weights = routes.weights[at];
    if (rule.of_inputs) {
      scale_rows(weights, rows_of(gathered, count, width), pass);
      std::ranges::fill(weights, 1.0f);
    }
    run_network(matrices->networks[at], parts->biases[at], rows_of(gathered, count, width),
                rows_of(given, count, width), "experts.", index, pass);
    backend.scatter_add(rows_of(given, count, width), rows, weights, sum);
  }
  if (apart) {
    pass.see(index, "latent.out_proj", sum);
    backend.multiply(*matrices->from_experts, sum, out);
    backend.add_bias(parts->from_experts_bias, out);
  }
}

void Decoder::run_shared_expert(std::int64_t index, Rows2d in, Rows2d out, Pass& pass) const {
  const auto& [parts, matrices] = layers_[static_cast<std::size_t>(index)];
  const Backend& backend = pass.backend;
  const RoutingRule& rule = shared_->description.routing;
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

// Gemma 4: both read the hidden state, and what they give is added.
void Decoder::run_experts_beside_network(std::int64_t index, Rows2d in, Rows2d out,
                                         Pass& pass) const {
  const auto& [parts, matrices] = layers_[static_cast<std::size_t>(index)];
  const Backend& backend = pass.backend;
  const std::int64_t columns = in.columns;
  const Rows2d second = pass.in(pass.second, columns), read = pass.in(pass.read, columns);
  const Rows2d routed_by = pass.in(pass.query, columns);
  run_network(matrices->shared.front(), parts->shared_bias, in, out, "shared_expert.", index, pass);
  backend.norm(parts->network_post_norm, out, out);
  backend.norm(parts->router_norm, pass.hidden, routed_by);
  backend.norm(parts->experts_norm, pass.hidden, read);
  run_experts(index, routed_by, read, second, pass);
  backend.norm(parts->experts_post_norm, second, second);
  backend.add(second, out);
}

void Decoder::feed_forward(std::int64_t index, Rows2d in, Rows2d out, Pass& pass) const {
  const auto& [parts, matrices] = layers_[static_cast<std::size_t>(index)];
  if (parts->router != nullptr && shared_->description.experts_beside_network) {
    run_experts_beside_network(index, in, out, pass);
  } else if (parts->router != nullptr) {
    run_experts(index, in, in, out, pass);
    if (!matrices->shared.empty()) run_shared_expert(index, in, out, pass);
  } else {
    run_network(matrices->networks.front(), parts->biases.front(), in, out, "", index, pass);
  }
  sum_over_ranks(out, pass);
}

// Of the hidden state `in` and what the layer gets by token, into pass.out.
void Decoder::make_layer_input(std::int64_t index, Rows2d in, Pass& pass) const {
  const auto& [parts, matrices] = layers_[static_cast<std::size_t>(index)];
  const std::int64_t width = layer_input_width(shape().layer(index));
  const Backend& backend = pass.backend;
  const Rows2d gate = pass.in(pass.inner, width), own = pass.in(pass.gate, width);
  pass.see(index, "per_layer_input.in_proj", in);
  backend.multiply(*matrices->layer_input.in, in, gate);
  copy(pass.layer_inputs.part(index * width, width), own, pass);
  backend.gated_activation(shared_->description.activation, gate, own);
  pass.see(index, "per_layer_input.out_proj", gate);
  backend.multiply(*matrices->layer_input.down, gate, pass.out);
  backend.norm(parts->layer_input_norm, pass.out, pass.out);
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
  const LayerShape& shape = this->shape().layer(index);
  if (shape.attends() || shape.state) {
    Rows2d in = read(parts.attention_norm);
    mix(index, in, out, pass);
    if (d.parallel) {
      const Rows2d second = pass.in(pass.second, x.columns);
      if (!d.shared_norm) in = read(parts.ffn_norm);
      feed_forward(index, in, second, pass);
      backend.add(second, out);
      return add({}, out);
    }
    add(parts.attention_post_norm, out);
    if (d.places == NormPlaces::after_sums) backend.norm(parts.attention_norm, x, x);
  }
  if (!feeds_forward(shape)) return;
  feed_forward(index, read(parts.ffn_norm), out, pass);
  add(parts.ffn_post_norm, out);
  if (d.places == NormPlaces::after_sums) backend.norm(parts.ffn_norm, x, x);
  if (layer_input_width(shape) > 0) {
    make_layer_input(index, x, pass);
    backend.add(out, x);
  }
  scale(parts.layer_scale, x, pass);
}

}  // namespace tessera::lm
