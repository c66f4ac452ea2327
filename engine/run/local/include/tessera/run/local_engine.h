#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/lm/language_model.h"
#include "tessera/run/local_executor.h"
#include "tessera/serving/deployment.h"

/// One engine in this process, as a deployment describes it and a model runs it.
namespace tessera::run {

/// Of a block of the caches of a model and of the one that drafts for it, which is null where none
/// does.
double block_bytes_of(const lm::LanguageModel& model, const lm::LanguageModel* draft_model,
                      std::int64_t block_size);

/// The one engine of a deployment, with the model's context where it says none.
/// @param draft_model of an engine whose speculation is by draft_model, else null
/// @param path named in errors. @throws Error{unsupported} naming what does not run in one process,
/// Error{out_of_range} for a context beyond the model's or blocks beyond the machine's memory
serving::Replica engine_of(const serving::Deployment& deployment, const lm::LanguageModel& model,
                           const std::string& path, const lm::LanguageModel* draft_model = nullptr);

/// Its KV cache, whose blocks have names.
serving::BlockManager::Options named_kv_options(const serving::Replica& engine);

LocalExecutor::Options executor_options_of(
    const serving::Replica& engine, const std::vector<std::int32_t>& stop_tokens,
    std::shared_ptr<const lm::LanguageModel> draft_model = nullptr);

}  // namespace tessera::run
