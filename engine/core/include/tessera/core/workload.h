#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/core/json_fwd.h"

namespace tessera {

/// What is served: one batch of requests. Lengths are per request.
struct Workload {
  std::string name;
  double prompt_tokens = 512;  ///< mean over requests; >= 1
  double output_tokens =
      100;  ///< mean over requests; >= 1. The first output token comes out of prefill
  std::int64_t batch_size = 32;  ///< requests, >= 1
  std::int64_t max_prompt_tokens =
      512;  ///< longest prompt: prompts are padded to it, and memory is reserved for it
  std::int64_t max_output_tokens = 100;  ///< longest output: memory is reserved for it
  std::optional<std::int64_t>
      chunk_tokens;  ///< chunked prefill: tokens of a prompt processed per pass
  std::string source;

  /// Chunks that a prompt is cut into (kappa), >= 1; 1 without chunk_tokens.
  std::int64_t num_chunks() const;
  /// Tokens in chunk `index` (0-based), the last one being what is left over.
  std::int64_t tokens_in_chunk(std::int64_t index) const;
};

Json to_json(const Workload& workload);
Workload workload_from_json(const Json& json, const std::string& path);

}  // namespace tessera
