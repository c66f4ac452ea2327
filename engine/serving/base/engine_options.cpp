#include "tessera/serving/engine_options.h"

#include "tessera/core/error.h"

namespace tessera {

void Fields<serving::EngineOptions>::check(const serving::EngineOptions& engine,
                                           const FieldPath& path) {
  if (engine.kv_cache_dtype != "auto" && engine.kv_cache_dtype != "fp8" &&
      engine.kv_cache_dtype != "bfloat16") {
    refuse(path("kv_cache_dtype"), "'{}' is none of auto, fp8, bfloat16", engine.kv_cache_dtype);
  }
  if (engine.async_scheduling.value_or(false)) {
    if (engine.scheduler != "vllm_v1") {
      refuse(path("async_scheduling"), "scheduler {} decides step by step; vllm_v1 can look ahead",
             engine.scheduler);
    }
    if (engine.speculative && engine.speculative->method == serving::DraftMethod::ngram) {
      refuse(path("async_scheduling"),
             "n-gram drafts are looked up in the tokens of the step before; leave one out");
    }
  }
  if (engine.kv_allocation == serving::KvAllocation::maximum && engine.max_model_len == 0) {
    refuse(path("kv_allocation"),
           "maximum sets aside max_model_len tokens for each request; give max_model_len");
  }
}

}  // namespace tessera
