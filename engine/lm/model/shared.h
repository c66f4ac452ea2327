#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "decoder.h"
#include "share.h"

namespace tessera::lm {

/// What a model and its copies with another layer have in common.
struct Decoder::Shared {
  std::shared_ptr<const weights::Weights> weights;
  std::shared_ptr<const Backend> backend;
  Description description;
  Share share;
  std::unique_ptr<TensorReader> reader;
  std::optional<quant::Statistics> statistics;  ///< of calibration

  const weights::TensorInfo* embedding = nullptr;  ///< read row by row from the file
  Memory position_table;                           ///< [positions][hidden_size] f32
  std::optional<NormWeights> embedding_norm, final_norm;
  std::shared_ptr<const Linear> project_in, project_out, head;
  Memory head_bias, alibi_slopes;
  /// Of what layers get by token (Gemma 4): [tokens][layers x width], read row by row as well, and
  /// what makes the rest of it of the embedding.
  const weights::TensorInfo* layer_embedding = nullptr;
  std::shared_ptr<const Linear> layer_projection;
  NormWeights layer_projection_norm;
  /// Of the hidden states of a token but the first: of it, and back.
  std::vector<std::shared_ptr<const Linear>> stream_projections, stream_returns;

  Decoder::TokensLoader load_tokens;
  mutable std::once_flag tokens_once;
  mutable std::shared_ptr<const Tokens> tokens;
};

/// Which rows each expert gets, and with which weights.
struct Routes {
  std::vector<std::vector<std::int64_t>> rows;  ///< [num_experts]
  std::vector<std::vector<float>> weights;      ///< the same
};

/// `scores` [rows][num_experts]: of softmax or sigmoids the `num_active` largest, or the largest
/// with `correction` [num_experts] or none added (the first of equal ones); divided by their sum
/// where the rule says so, and scaled.
Routes route(std::span<const float> scores, std::span<const float> correction,
             std::int64_t num_experts, std::int64_t num_active, const RoutingRule& rule);

}  // namespace tessera::lm
