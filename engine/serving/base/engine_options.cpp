#include "tessera/serving/engine_options.h"

#include <fmt/format.h>

#include "tessera/core/error.h"

namespace tessera {

std::string serving::why_step_by_step(const EngineOptions& engine, std::size_t num_stages) {
  if (engine.scheduler != "vllm_v1") {
    return fmt::format("scheduler {} decides step by step; vllm_v1 can look ahead",
                       engine.scheduler);
  }
  if (engine.speculative && engine.speculative->method == DraftMethod::ngram) {
    return "n-gram drafts are looked up in the tokens of the step before; leave one out";
  }
  if (num_stages > 1) {
    return fmt::format("an engine of {} stages decides step by step; leave it out", num_stages);
  }
  return {};
}

namespace {

void check_prefill_wait(const serving::EngineOptions& engine, const FieldPath& path) {
  const bool tokens = engine.prefill_wait_tokens.has_value();
  const bool parts = engine.prefill_wait_parts.has_value();
  if (!engine.prefill_wait_steps) {
    if (!tokens && !parts) return;
    refuse(path("prefill_wait_steps"), "{} says what prompts wait for; say how many steps at most",
           tokens ? "prefill_wait_tokens" : "prefill_wait_parts");
  }
  if (engine.scheduler != "vllm_v1") {
    refuse(path("prefill_wait_steps"), "prompts do not wait under scheduler {}; vllm_v1 has it",
           engine.scheduler);
  }
  if (tokens == parts) {
    refuse(path("prefill_wait_steps"),
           "prompts wait for tokens or for parts: give one of prefill_wait_tokens, "
           "prefill_wait_parts");
  }
}

}  // namespace

void Fields<serving::EngineOptions>::check(const serving::EngineOptions& engine,
                                           const FieldPath& path) {
  check_prefill_wait(engine, path);
  if (engine.kv_cache_dtype != "auto" && engine.kv_cache_dtype != "fp8" &&
      engine.kv_cache_dtype != "bfloat16") {
    refuse(path("kv_cache_dtype"), "'{}' is none of auto, fp8, bfloat16", engine.kv_cache_dtype);
  }
  runtime_version(engine.runtime_version, path("runtime_version"));
  if (engine.async_scheduling.value_or(false)) {
    const std::string why = serving::why_step_by_step(engine);
    if (!why.empty()) refuse(path("async_scheduling"), "{}", why);
  }
  if (engine.kv_allocation == serving::KvAllocation::maximum && engine.max_model_len == 0) {
    refuse(path("kv_allocation"),
           "maximum sets aside max_model_len tokens for each request; give max_model_len");
  }
}

}  // namespace tessera
