#include "decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "decoder_pass.h"
#include "shared.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::lm {
namespace {

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
  return layers_[static_cast<std::size_t>(layer_index)].matrices->describe();
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

// [tokens][columns of the table], as they are in the file.
Memory Decoder::token_rows(std::span<const std::int32_t> tokens,
                           const weights::TensorInfo& table) const {
  const std::int64_t width = table.shape.back();
  std::vector<float> rows(tokens.size() * static_cast<std::size_t>(width));
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const std::span<float> row(rows.data() + static_cast<std::int64_t>(t) * width,
                               static_cast<std::size_t>(width));
    const std::int64_t token = tokens[t];
    if (token >= table.shape.front()) {
      refuse(ErrorCode::out_of_range, "tokens", "token {}, and {} has {} rows", token,
             quote(table.name, 100), table.shape.front());
    }
    weights::read_f32(*shared_->weights, table, token * width, row);
    check_embedding(table, token, row);
  }
  return shared_->backend->upload(rows.data(), std::ssize(rows) * 4);
}

// What each layer gets by token: a row of a table of its own, and a part of what the embedding
// makes, which is the same wherever the model was cut.
void Decoder::make_layer_inputs(Pass& pass) const {
  if (shared_->layer_embedding == nullptr) return;
  const Description& d = shared_->description;
  const Backend& backend = pass.backend;
  const Step& step = pass.step;
  const std::int64_t width = layer_input_width(d.shape.layer(0)), hidden = d.shape.hidden_size;
  const std::int64_t all = d.shape.num_layers * width;
  const Memory embedded = token_rows(step.tokens, *shared_->embedding);
  const Rows2d x = rows_of(embedded, step.num_tokens, hidden);
  backend.scale(d.embedding_scale / std::sqrt(static_cast<float>(hidden)), x);
  pass.layer_inputs = pass.buffer(all);
  backend.multiply(*shared_->layer_projection, x, pass.layer_inputs);
  const Rows2d by_layer{pass.layer_inputs.data, step.num_tokens * d.shape.num_layers, width, width};
  backend.norm(shared_->layer_projection_norm, by_layer, by_layer);
  // Tokens that have none, of pictures and sound in Gemma 3n, read the first.
  std::vector<std::int32_t> tokens = step.tokens;
  for (std::int32_t& token : tokens)
    if (token >= shared_->layer_embedding->shape.front()) token = 0;
  const Memory own = token_rows(tokens, *shared_->layer_embedding);
  backend.scale(std::sqrt(static_cast<float>(width)), rows_of(own, step.num_tokens, all));
  backend.add(rows_of(own, step.num_tokens, all), pass.layer_inputs);
  backend.scale(1 / std::sqrt(2.0f), pass.layer_inputs);
}

void Decoder::embed_tokens(const Step& step, Rows2d hidden) const {
  const Description& d = shared_->description;
  const Backend& backend = *shared_->backend;
  const std::int64_t width = shared_->embedding->shape.back();
  const Memory memory = token_rows(step.tokens, *shared_->embedding);
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

void Decoder::run(std::int64_t first, std::int64_t last, Pass& pass) const {
  if (shared_->share.ranks > 1 && request_.reducer == nullptr) {
    refuse("reducer", "rank {} of {} of {} has none, and layers run where ranks add up",
           request_.rank, request_.ranks, shape().name);
  }
  if (request_.attention_elsewhere > 0 && request_.elsewhere == nullptr) {
    refuse("elsewhere", "{:g} of the heads of {} are elsewhere, and nobody says where",
           request_.attention_elsewhere, shape().name);
  }
  const bool in_streams = shared_->description.num_streams > 1;
  if (in_streams && (first > 0 || last < shape().num_layers)) {
    refuse(ErrorCode::unsupported, "layers",
           "[{}, {}) of {}: its layers hand on {} hidden states of a token; it runs whole", first,
           last, shape().name, shared_->description.num_streams);
  }
  try {
    make_layer_inputs(pass);
    if (in_streams) begin_streams(pass);
    for (std::int64_t index = first; index < last; ++index)
      in_streams ? run_layer_in_streams(index, pass) : run_layer(index, pass);
    if (in_streams) end_streams(pass);
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
