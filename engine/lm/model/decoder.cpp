#include "decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "shared.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::lm {
namespace {

Rows2d rows_of(const Memory& memory, std::int64_t rows, std::int64_t columns) {
  return {static_cast<float*>(memory.get()), rows, columns, columns};
}

// The table is read where it lies in its file, and so is checked where it is read.
void check_embedding(const weights::TensorInfo& table, std::int64_t token,
                     std::span<const float> row) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (std::isfinite(row[i])) continue;
    refuse(quote(table.file, 300),
           "tensor {} holds {} for token {} at feature {}; the file is damaged, fetch it again",
           quote(table.name, 100), row[i], token, i);
  }
}

}  // namespace

struct Decoder::Pass {
  Pass(const Step& batch, const DecoderCache& kv, const Backend& device, const ModelShape& shape,
       Rows2d states)
      : step(batch), cache(kv), backend(device), hidden(states) {
    normed = buffer(shape.hidden_size);
    out = buffer(shape.hidden_size);
  }
  /// Kept until the pass ends.
  Rows2d buffer(std::int64_t columns, std::int64_t rows = 0) {
    if (rows == 0) rows = hidden.rows;
    memory.push_back(backend.allocate(rows * columns * 4));
    return rows_of(memory.back(), rows, columns);
  }
  void see(std::int64_t layer_index, std::string_view linear, Rows2d inputs) const {
    if (observer == nullptr) return;
    std::vector<float> dense(static_cast<std::size_t>(inputs.rows * inputs.columns));
    for (std::int64_t row = 0; row < inputs.rows; ++row) {
      backend.download(inputs.data + row * inputs.stride, inputs.columns * 4,
                       dense.data() + row * inputs.columns);
    }
    (*observer)(layer_index, linear, dense.data(), inputs.rows);
  }

  const Step& step;
  const DecoderCache& cache;
  const Backend& backend;
  Rows2d hidden, normed, out;
  Rows2d qkv, attention, inner, second;  ///< made when a layer needs them
  const Observer* observer = nullptr;
  std::vector<Memory> memory;
};

Decoder::Decoder(std::shared_ptr<const Shared> shared, LoadRequest request,
                 std::vector<Layer> layers)
    : shared_(std::move(shared)), request_(std::move(request)), layers_(std::move(layers)) {}

Decoder::~Decoder() = default;

const ModelShape& Decoder::shape() const { return shared_->description.shape; }

std::int64_t Decoder::weight_bytes() const {
  std::int64_t bytes = request_.with_head ? shared_->head->bytes() : 0;
  for (const Layer& layer : layers_) bytes += layer.matrices ? layer.matrices->bytes() : 0;
  return bytes;
}

MemoryUse Decoder::memory_use() const { return shared_->backend->memory_use(); }

void Decoder::need_layers(std::int64_t first, std::int64_t last) const {
  if (first >= request_.first_layer && last >= first && last <= request_.last_layer) return;
  const bool whole = request_.first_layer == 0 && request_.last_layer == shape().num_layers;
  refuse(ErrorCode::out_of_range, "layers", "[{}, {}) are asked for, and {} has [{}, {})", first,
         last, whole ? shape().name : "this part of " + shape().name, request_.first_layer,
         request_.last_layer);
}

void Decoder::need_embedding() const {
  if (request_.with_embedding) return;
  refuse(ErrorCode::out_of_range, "embedding", "this part of {}, layers [{}, {}), has none",
         shape().name, request_.first_layer, request_.last_layer);
}

void Decoder::need_head() const {
  if (request_.with_head) return;
  refuse(ErrorCode::out_of_range, "head", "this part of {}, layers [{}, {}), has none",
         shape().name, request_.first_layer, request_.last_layer);
}

void Decoder::need_all() const {
  need_embedding();
  need_layers(0, shape().num_layers);
  need_head();
}

std::string Decoder::describe_layer(std::int64_t layer_index) const {
  need_layers(layer_index, layer_index + 1);
  return layers_[static_cast<std::size_t>(layer_index)].matrices->qkv->describe();
}

int Decoder::num_threads() const { return request_.num_threads; }

std::unique_ptr<KvCache> Decoder::make_cache(std::int64_t num_blocks,
                                             std::int64_t block_size) const {
  return std::make_unique<DecoderCache>(shared_->description, request_, num_blocks, block_size,
                                        shared_->backend);
}

const DecoderCache& Decoder::own(KvCache& cache) const {
  const auto* own = dynamic_cast<const DecoderCache*>(&cache);
  if (own == nullptr || own->owner() != &shared_->description)
    refuse("cache", "it was made for another model");
  return *own;
}

void Decoder::embed_tokens(const Step& step, Rows2d hidden) const {
  const Description& d = shared_->description;
  const Backend& backend = *shared_->backend;
  const std::int64_t width = shared_->embedding->shape.back();
  std::vector<float> rows(static_cast<std::size_t>(step.num_tokens * width));
  for (std::int64_t t = 0; t < step.num_tokens; ++t) {
    const std::span<float> row(rows.data() + t * width, static_cast<std::size_t>(width));
    const std::int64_t token = step.tokens[static_cast<std::size_t>(t)];
    weights::read_f32(*shared_->weights, *shared_->embedding, token * width, row);
    check_embedding(*shared_->embedding, token, row);
  }
  const Memory memory = backend.upload(rows.data(), step.num_tokens * width * 4);
  const Rows2d embedded = rows_of(memory, step.num_tokens, width);
  if (shared_->project_in != nullptr) {
    backend.multiply(*shared_->project_in, embedded, hidden);
  } else {
    std::vector<std::int64_t> all(static_cast<std::size_t>(step.num_tokens));
    std::iota(all.begin(), all.end(), 0);
    backend.gather(embedded, all, hidden);
  }
  if (d.embedding_scale != 1) backend.scale(d.embedding_scale, hidden);
  if (shared_->position_table != nullptr) {
    std::vector<std::int64_t> places;
    for (const std::int32_t position : step.positions)
      places.push_back(position + d.position_offset);
    const Memory positions = backend.allocate(step.num_tokens * d.shape.hidden_size * 4);
    const Rows2d added = rows_of(positions, step.num_tokens, d.shape.hidden_size);
    backend.gather(rows_of(shared_->position_table, d.shape.max_context_tokens + d.position_offset,
                           d.shape.hidden_size),
                   places, added);
    backend.add(added, hidden);
  }
  if (shared_->embedding_norm) backend.norm(*shared_->embedding_norm, hidden, hidden);
}

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

void Decoder::attend(std::int64_t index, Rows2d in, Rows2d out, Pass& pass) const {
  const Description& d = shared_->description;
  const LayerShape& shape = d.shape.layer(index);
  const auto& [parts, matrices] = layers_[static_cast<std::size_t>(index)];
  const Backend& backend = pass.backend;
  const std::int64_t heads = shared_->share.of(shape.num_heads);
  const std::int64_t kv_heads = shared_->share.of(shape.num_kv_heads);
  const std::int64_t query = heads * shape.head_dim, key = kv_heads * shape.head_dim;
  if (pass.qkv.columns != query + 2 * key) pass.qkv = pass.buffer(query + 2 * key);
  if (pass.attention.columns != query) pass.attention = pass.buffer(query);
  pass.see(index, "q_proj", in);
  backend.multiply(*matrices->qkv, in, pass.qkv);
  backend.add_bias(parts->qkv_bias, pass.qkv);
  const Rows2d queries = pass.qkv.part(0, query), keys = pass.qkv.part(query, key),
               values = pass.qkv.part(query + key, key);
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
  attend(index, in, out, pass);
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

void Decoder::run(std::int64_t first, std::int64_t last, Pass& pass) const {
  if (shared_->share.ranks > 1 && request_.reducer == nullptr) {
    refuse("reducer", "rank {} of {} of {} has none, and layers run where ranks add up",
           request_.rank, request_.ranks, shape().name);
  }
  if (request_.attention_elsewhere > 0 && request_.elsewhere == nullptr) {
    refuse("elsewhere", "{:g} of the heads of {} are elsewhere, and nobody says where",
           request_.attention_elsewhere, shape().name);
  }
  try {
    for (std::int64_t index = first; index < last; ++index) run_layer(index, pass);
  } catch (...) {
    if (request_.reducer != nullptr) request_.reducer->abort();  // nobody waits for this rank
    throw;
  }
}

void Decoder::make_logits(Rows2d hidden, std::span<float> logits) const {
  const Description& d = shared_->description;
  const Backend& backend = *shared_->backend;
  const std::int64_t vocab = d.shape.vocab_size;
  if (static_cast<std::int64_t>(logits.size()) != hidden.rows * vocab) {
    refuse("logits", "room for {} numbers, and {} rows of {} are asked for", logits.size(),
           hidden.rows, vocab);
  }
  if (hidden.rows == 0) return;
  Memory normed = backend.allocate(hidden.rows * hidden.columns * 4);
  Rows2d x = hidden;
  if (shared_->final_norm) {
    x = rows_of(normed, hidden.rows, hidden.columns);
    backend.norm(*shared_->final_norm, hidden, x);
  }
  Memory projected;
  if (shared_->project_out != nullptr) {
    const std::int64_t width = shared_->project_out->out_features();
    projected = backend.allocate(hidden.rows * width * 4);
    backend.multiply(*shared_->project_out, x, rows_of(projected, hidden.rows, width));
    x = rows_of(projected, hidden.rows, width);
  }
  const Memory memory = backend.is_host() ? Memory() : backend.allocate(hidden.rows * vocab * 4);
  const Rows2d out{backend.is_host() ? logits.data() : static_cast<float*>(memory.get()),
                   hidden.rows, vocab, vocab};
  backend.multiply(*shared_->head, x, out);
  backend.add_bias(shared_->head_bias, out);
  if (d.logit_scale != 1) backend.scale(d.logit_scale, out);
  if (d.logit_softcap > 0) backend.softcap(d.logit_softcap, out);
  if (!backend.is_host()) backend.download(out.data, hidden.rows * vocab * 4, logits.data());
}

void Decoder::step(std::span<const SequenceStep> batch, KvCache& cache,
                   std::span<float> logits) const {
  need_all();
  const DecoderCache& kv = own(cache);
  const Backend& backend = *shared_->backend;
  const Step step =
      make_step(batch, shared_->description, kv.num_blocks(), kv.block_size(), backend);
  const auto rows = static_cast<std::int64_t>(step.logit_rows.size());
  if (static_cast<std::int64_t>(logits.size()) != rows * shape().vocab_size) {
    refuse("logits", "room for {} numbers, and {} rows of {} are asked for", logits.size(), rows,
           shape().vocab_size);
  }
  const Memory memory = backend.allocate(step.num_tokens * shape().hidden_size * 4);
  const Rows2d hidden = rows_of(memory, step.num_tokens, shape().hidden_size);
  embed_tokens(step, hidden);
  {
    Pass pass(step, kv, backend, shape(), hidden);
    run(0, shape().num_layers, pass);
  }
  if (rows == 0) return;
  if (rows == step.num_tokens) return make_logits(hidden, logits);
  const Memory wanted = backend.allocate(rows * shape().hidden_size * 4);
  backend.gather(hidden, step.logit_rows, rows_of(wanted, rows, shape().hidden_size));
  make_logits(rows_of(wanted, rows, shape().hidden_size), logits);
}

void Decoder::embed(std::span<const SequenceStep> batch, std::span<float> hidden) const {
  need_embedding();
  const Backend& backend = *shared_->backend;
  // No cache: as many blocks as anybody names, since none is touched.
  const Step step = make_step(batch, shared_->description, INT32_MAX, 1 << 30, backend);
  check_hidden(hidden.size(), step.num_tokens);
  const Memory memory = backend.allocate(step.num_tokens * shape().hidden_size * 4);
  embed_tokens(step, rows_of(memory, step.num_tokens, shape().hidden_size));
  backend.download(memory.get(), step.num_tokens * shape().hidden_size * 4, hidden.data());
}

void Decoder::check_hidden(std::size_t size, std::int64_t tokens) const {
  if (static_cast<std::int64_t>(size) == tokens * shape().hidden_size) return;
  refuse("hidden", "room for {} numbers, and {} tokens have {} each", size, tokens,
         shape().hidden_size);
}

void Decoder::run_layers(std::int64_t first, std::int64_t last, std::span<const SequenceStep> batch,
                         KvCache& cache, std::span<float> hidden) const {
  need_layers(first, last);
  const DecoderCache& kv = own(cache);
  const Backend& backend = *shared_->backend;
  const Step step =
      make_step(batch, shared_->description, kv.num_blocks(), kv.block_size(), backend);
  check_hidden(hidden.size(), step.num_tokens);
  const std::int64_t bytes = step.num_tokens * shape().hidden_size * 4;
  const Memory memory = backend.upload(hidden.data(), bytes);
  Pass pass(step, kv, backend, shape(), rows_of(memory, step.num_tokens, shape().hidden_size));
  run(first, last, pass);
  backend.download(memory.get(), bytes, hidden.data());
}

void Decoder::head(std::span<const float> hidden, std::span<float> logits) const {
  need_head();
  const auto rows = static_cast<std::int64_t>(hidden.size()) / shape().hidden_size;
  check_hidden(hidden.size(), rows);
  const Memory memory =
      shared_->backend->upload(hidden.data(), static_cast<std::int64_t>(hidden.size()) * 4);
  make_logits(rows_of(memory, rows, shape().hidden_size), logits);
}

void Decoder::observe(std::span<const SequenceStep> batch, KvCache& cache,
                      const Observer& see) const {
  need_all();
  if (shared_->share.ranks > 1) {
    refuse(ErrorCode::unsupported, "ranks", "rank {} of {} sees a share of what matrices multiply",
           request_.rank, request_.ranks);
  }
  const DecoderCache& kv = own(cache);
  const Backend& backend = *shared_->backend;
  const Step step =
      make_step(batch, shared_->description, kv.num_blocks(), kv.block_size(), backend);
  const Memory memory = backend.allocate(step.num_tokens * shape().hidden_size * 4);
  const Rows2d hidden = rows_of(memory, step.num_tokens, shape().hidden_size);
  embed_tokens(step, hidden);
  Pass pass(step, kv, backend, shape(), hidden);
  pass.observer = &see;
  run(0, shape().num_layers, pass);
}

}  // namespace tessera::lm
