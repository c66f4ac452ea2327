#include "tessera/run/local_engine.h"

#include <fmt/format.h>

#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/serving/engine_setup.h"
#include "tessera/workers/pool.h"

namespace tessera::run {

namespace {

// Of the cache's pages many are used much later: what will be needed has to be there now.
void check_memory(const serving::Replica& engine, const lm::LanguageModel& model,
                  const lm::LanguageModel* draft_model, const std::string& path) {
  const std::int64_t block_size = engine.engine.block_size;
  const double block_bytes = block_bytes_of(model, draft_model, block_size);
  const double bytes = block_bytes * static_cast<double>(engine.kv_blocks);
  const double free_bytes = workers::free_memory_bytes();
  if (bytes <= free_bytes) return;
  refuse(ErrorCode::out_of_range, path,
         "{} KV blocks of {} tokens take {}, and {} of this machine's {} are free; give kv_blocks "
         "= {} or fewer",
         engine.kv_blocks, block_size, format_bytes(bytes), format_bytes(free_bytes),
         format_bytes(workers::machine_memory_bytes()),
         static_cast<std::int64_t>(free_bytes / block_bytes));
}

void check_drafts(const serving::Replica& engine, const lm::LanguageModel& model,
                  const lm::LanguageModel* draft_model, const std::string& path) {
  const auto& speculative = engine.engine.speculative;
  const bool by_model = speculative && speculative->method == serving::DraftMethod::draft_model;
  if (speculative && !by_model && speculative->method != serving::DraftMethod::ngram) {
    refuse(ErrorCode::unsupported, path, "speculation by {}; ngram and draft_model run",
           name_of(speculative->method));
  }
  if (by_model != (draft_model != nullptr)) {
    refuse(path, "{}",
           by_model ? "speculation by draft_model, and there is no draft model"
                    : "a draft model, and the engine's speculation is not by draft_model");
  }
  if (!by_model) return;
  if (draft_model->shape().vocab_size != model.shape().vocab_size) {
    refuse(path, "the draft model has {} tokens, the model has {}: they have to be the same ones",
           draft_model->shape().vocab_size, model.shape().vocab_size);
  }
  if (engine.engine.async_scheduling.value_or(false)) {
    refuse(ErrorCode::unsupported, path,
           "async_scheduling with a draft model, whose drafts are known when a step is done");
  }
}

}  // namespace

double block_bytes_of(const lm::LanguageModel& model, const lm::LanguageModel* draft_model,
                      std::int64_t block_size) {
  return model.block_bytes(block_size) +
         (draft_model != nullptr ? draft_model->block_bytes(block_size) : 0);
}

serving::Replica engine_of(const serving::Deployment& deployment, const lm::LanguageModel& model,
                           const std::string& path, const lm::LanguageModel* draft_model) {
  const auto no = [&](const std::string& what) {
    refuse(ErrorCode::unsupported, path, "{}", what);
  };
  if (deployment.replicas.size() != 1) {
    no(fmt::format("the deployment has {} engines, and one runs in this process",
                   deployment.replicas.size()));
  }
  serving::Replica engine = deployment.replicas.front();
  if (engine.role != serving::Role::mixed) no("an engine that reads or decodes alone");
  if (engine.from_s > 0 || engine.until_s) no("an engine that comes or goes");
  check_drafts(engine, model, draft_model, path);
  const std::int64_t context = model.shape().max_context_tokens;
  std::int64_t& most = engine.engine.max_model_len;
  if (most > context) {
    refuse(ErrorCode::out_of_range, path,
           "max_model_len is {} tokens, the context of {} has {}; give max_model_len = {}", most,
           model.shape().name, context, context);
  }
  if (most == 0) most = context;
  check_memory(engine, model, draft_model, path);
  return engine;
}

serving::BlockManager::Options named_kv_options(const serving::Replica& engine) {
  serving::BlockManager::Options kv = serving::kv_options(engine);
  kv.named = true;
  return kv;
}

LocalExecutor::Options executor_options_of(const serving::Replica& engine,
                                           const std::vector<std::int32_t>& stop_tokens,
                                           std::shared_ptr<const lm::LanguageModel> draft_model) {
  const auto& speculative = engine.engine.speculative;
  return {.kv_blocks = engine.kv_blocks,
          .block_size = engine.engine.block_size,
          .stop_tokens = {stop_tokens.begin(), stop_tokens.end()},
          .num_drafts = speculative ? speculative->num_tokens : 0,
          .draft_model = std::move(draft_model)};
}

}  // namespace tessera::run
