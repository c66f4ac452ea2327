#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine.h"

namespace tessera::http {

/// How a request ended, as vLLM's finished_reason.
enum class Finished { stop, length, abort, error };

/// What a server counts, under vLLM's names. On the I/O thread alone.
class Metrics {
 public:
  Metrics(const std::string& model_name, const serving::EngineOptions& engine,
          std::int64_t kv_blocks);
  ~Metrics();

  struct Times {  ///< of a request; in seconds, negative: it did not come to that
    double queue_s = -1, prefill_s = -1, decode_s = -1, inference_s = -1;
  };
  void first_token(double ttft_s);
  void next_tokens(double gap_s, std::int64_t tokens);
  void step_tokens(std::int64_t tokens);
  /// Every request, however it ends.
  void ended(Finished how, const Times& times, double e2e_s, double per_token_s,
             std::int64_t prompt_tokens, std::int64_t generated, std::int64_t n,
             std::int64_t max_tokens);
  void too_slow();

  /// In Prometheus's text format, with gauges as the engine is now.
  std::string text(const EngineState& engine);

 private:
  class Registry;
  std::unique_ptr<Registry> registry_;
};

}  // namespace tessera::http
