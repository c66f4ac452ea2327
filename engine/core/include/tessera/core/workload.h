#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tessera/core/json_fwd.h"
#include "tessera/core/requests.h"

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
  /// Requests that lengths vary over: the means and the longest above are theirs. nullptr: all
  /// requests are alike. Planners use the means, the event simulation draws from the requests.
  std::shared_ptr<const RequestTrace> trace;

  /// Takes over means and maxima of `requests`.
  void set_trace(std::shared_ptr<const RequestTrace> requests);
  /// Tokens in a request's KV cache while it decodes, mean over the steps of all requests.
  double mean_context_tokens() const;
  /// Chunks that a prompt is cut into (kappa), >= 1; 1 without chunk_tokens.
  std::int64_t num_chunks() const;
  /// Tokens in chunk `index` (0-based), the last one being what is left over.
  std::int64_t tokens_in_chunk(std::int64_t index) const;
};

Json to_json(const Workload& workload);
Workload workload_from_json(const Json& json, const std::string& path);

}  // namespace tessera
