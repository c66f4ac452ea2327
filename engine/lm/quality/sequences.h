#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/lm/language_model.h"

/// What the measurements share in how they run a model.
namespace tessera::lm::quality {

inline constexpr std::int64_t kBlockTokens = 16;  ///< of a block of the cache

/// A cache in which slot s owns the blocks after those of slot s - 1: for sequences that run side
/// by side and are forgotten together.
class Slots {
 public:
  Slots(const LanguageModel& model, std::int64_t num_slots, std::int64_t max_tokens);

  KvCache& cache() const { return *cache_; }
  /// The block table of a slot that holds so many tokens.
  std::span<const std::int32_t> blocks(std::int64_t slot, std::int64_t num_tokens) const;

 private:
  std::int64_t blocks_per_slot_;
  std::vector<std::int32_t> blocks_;  ///< 0, 1, ...
  std::unique_ptr<KvCache> cache_;
};

/// The first `count` pieces of `size` tokens, one behind the other.
/// @param fields names of both for the message: "num_pieces", "piece_tokens"
/// @throws Error{out_of_range} for sizes that the model does not have, Error{invalid_argument} for
/// too short a text
std::vector<std::span<const std::int32_t>> pieces_of(std::span<const std::int32_t> tokens,
                                                     const std::string& name, std::int64_t count,
                                                     std::int64_t size, const ModelShape& shape,
                                                     const char* fields);

inline bool is_set(const std::atomic<bool>* stop) { return stop != nullptr && stop->load(); }

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  }

 private:
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace tessera::lm::quality
