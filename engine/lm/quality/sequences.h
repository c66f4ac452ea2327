#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/lm/slots.h"

/// What the measurements share in how they run a model.
namespace tessera::lm::quality {

/// The first `count` pieces of `size` tokens, one behind the other.
/// @param fields names of both for the message: "num_pieces", "piece_tokens"
/// @throws Error{out_of_range} for sizes that the model does not have, Error{invalid_argument} for
/// too short a text
std::vector<std::span<const std::int32_t>> pieces_of(std::span<const std::int32_t> tokens,
                                                     const std::string& name, std::int64_t count,
                                                     std::int64_t size, const ModelShape& shape,
                                                     const char* fields);

/// @throws Error{invalid_argument} where `out` is one of the files that the model is read from
void check_writes_no_input(const std::string& out, const LanguageModel& model);

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
