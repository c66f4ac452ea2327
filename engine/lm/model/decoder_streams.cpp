// Layers of a decoder that has several hidden states of a token.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "decoder_pass.h"
#include "shared.h"
#include "tessera/core/error.h"

namespace tessera::lm {

// The first is the embedding, the others are made of it, all of one magnitude.
void Decoder::begin_streams(Pass& pass) const {
  const std::int64_t width = shape().hidden_size;
  pass.streams = {pass.hidden};
  for (const auto& projection : shared_->stream_projections) {
    pass.streams.push_back(pass.buffer(width));
    pass.backend.multiply(*projection, pass.hidden, pass.streams.back());
    match_magnitude(pass.hidden, pass.streams.back());
  }
  for (std::size_t i = 0; i < pass.streams.size(); ++i)
    pass.predicted.push_back(pass.buffer(width));
}

// Brought back, of the magnitude of the first, and their mean.
void Decoder::end_streams(Pass& pass) const {
  const Rows2d made = pass.in(pass.second, shape().hidden_size);
  const Rows2d first = pass.predicted.front();  // before anything is added to it
  copy(pass.hidden, first, pass);
  for (std::size_t i = 1; i < pass.streams.size(); ++i) {
    pass.backend.multiply(*shared_->stream_returns[i - 1], pass.streams[i], made);
    match_magnitude(first, made);
    pass.backend.add(made, pass.hidden);
  }
  scale(1 / static_cast<float>(pass.streams.size()), pass.hidden, pass);
}

void Decoder::run_layer_in_streams(std::int64_t index, Pass& pass) const {
  const auto& [parts, matrices] = layers_[static_cast<std::size_t>(index)];
  const StreamWeights& weights = *parts->streams;
  const Backend& backend = pass.backend;
  const Rows2d x = pass.hidden, normed = pass.normed, out = pass.out;
  predict_streams(weights, pass.streams, pass.predicted);
  copy(pass.predicted.front(), x, pass);
  backend.norm(parts->attention_norm, x, normed);
  const Rows2d beside = pass.in(pass.second, x.columns);
  const Rows2d low = pass.in(pass.inner, matrices->bypass.in->out_features());
  pass.see(index, "laurel.in_proj", normed);
  backend.multiply(*matrices->bypass.in, normed, low);
  pass.see(index, "laurel.out_proj", low);
  backend.multiply(*matrices->bypass.down, low, beside);
  backend.norm(parts->bypass_norm, beside, beside);
  backend.add(normed, beside);
  mix(index, normed, out, pass);
  backend.norm(parts->attention_post_norm, out, out);
  backend.add(out, x);
  backend.add(beside, x);
  scale(1 / std::numbers::sqrt2_v<float>, x, pass);
  backend.norm(parts->ffn_norm, x, normed);
  feed_forward(index, normed, out, pass);
  backend.norm(parts->ffn_post_norm, out, out);
  backend.add(out, x);
  correct_streams(weights, pass.predicted, pass.streams);
  copy(x, normed, pass);
  for (std::int64_t row = 0; row < normed.rows; ++row) {
    float* const own = normed.data + row * normed.stride;
    std::transform(own, own + normed.columns, weights.scale.begin(), own, std::multiplies<>());
  }
  make_layer_input(index, normed, pass);
  for (std::size_t i = 1; i < pass.streams.size(); ++i) backend.add(pass.out, pass.streams[i]);
}

}  // namespace tessera::lm
