#pragma once

#include <cstdint>
#include <span>

/// What logits say of tokens. The exponentials are f32, their sums double; rows are shared out
/// among threads and do not depend on them.
namespace tessera::lm::quality {

/// Of row r of `logits` [targets.size()][vocab_size]: -log softmax(row)[targets[r]] (nats).
/// @throws Error{invalid_argument} for a logit that is not finite
void score_rows(std::span<const float> logits, std::span<const std::int32_t> targets,
                int num_threads, std::span<double> losses);

/// Whether the target is the largest logit of its row; of equals the first counts.
bool is_greedy(std::span<const float> row, std::int32_t target);

/// Of every row, KL(softmax(reference) || softmax(logits)) (nats).
/// @throws Error{invalid_argument} for a logit that is not finite
void divergence_rows(std::span<const float> reference, std::span<const float> logits,
                     int num_threads, std::span<double> divergences);

}  // namespace tessera::lm::quality
