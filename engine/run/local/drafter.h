#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "tessera/lm/language_model.h"
#include "tessera/lm/sampling.h"
#include "tessera/run/local_executor.h"
#include "tessera/serving/block_pool.h"

namespace tessera::run {

/// A draft model with a cache of its own, whose blocks are named as the model's: it reads what that
/// reads, and goes on by itself.
class Drafter {
 public:
  Drafter(std::shared_ptr<const lm::LanguageModel> model, std::int64_t kv_blocks,
          std::int64_t block_size, std::int64_t num_drafts);

  lm::KvCache& cache() { return *cache_; }

  /// A request's part in a step that was computed.
  struct Part {
    std::int64_t request = 0;
    std::int64_t context = 0;  ///< tokens that the step found in the cache
    std::int64_t kept = 0;     ///< tokens of the step that stay: refused ones do not
    /// From `context` on: those that stay, and the one chosen behind them where it guesses.
    std::span<const std::int32_t> tokens = {};
    bool decodes = false;  ///< it goes on from its step before
    std::span<const serving::Block> table = {};
    std::int64_t most_drafts = 0;                   ///< 0: it reads alone
    const lm::SamplingOptions* sampling = nullptr;  ///< null: the request is gone
    std::int64_t num_new = 0;                       ///< tokens of its answer so far
    Drafts drafts = {};                             ///< what it gets
    std::int64_t read = 0;                          ///< tokens in the draft model's cache
  };
  void run(std::span<Part> parts);
  void gone(std::int64_t request) { read_.erase(request); }

 private:
  template <class TokensOf>
  void guess(std::span<Part> parts, const TokensOf& tokens_of);
  void draw(Part& part, std::span<const float> logits);
  std::int64_t most_of(const Part& part) const;

  std::shared_ptr<const lm::LanguageModel> model_;
  std::int64_t block_size_, num_drafts_;
  std::unique_ptr<lm::KvCache> cache_;
  std::unordered_map<std::int64_t, std::int64_t> read_;  ///< tokens in the cache, by request

  std::vector<lm::SequenceStep> steps_;
  std::vector<float> logits_;
};

}  // namespace tessera::run
