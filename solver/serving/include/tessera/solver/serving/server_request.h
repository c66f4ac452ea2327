#pragma once

#include <cstdint>

#include "tessera/core/model_shape.h"

namespace tessera::solver {

/// What people send: a prompt of 4,000 tokens and a short answer. Searches leave engines out that
/// do not take it, launches give servers the limits for it.
constexpr std::int64_t kCommonRequestTokens = 4352;
/// A document and questions about it: of answers that are about as good the one that takes it.
constexpr std::int64_t kLongRequestTokens = 16384;

/// Of the predicted KV cache, what one request may need. A server whose longest request is beyond
/// its cache refuses to start, and predictions for dense models on vLLM's V1 engine (L4, H100,
/// A100, RTX 4090; 0.9 to 0.28) were above what it printed in half of all cases, by 4 % at most;
/// for one with windows beside whole contexts (gpt-oss-20b on an L4) by 36 %.
double request_share(const ModelShape& model);

/// Tokens of a predicted KV cache that takes such a request, or the model's longest.
std::int64_t least_cache_tokens(const ModelShape& model,
                                std::int64_t request_tokens = kCommonRequestTokens);

}  // namespace tessera::solver
