#pragma once

#include <cstdint>
#include <span>
#include <vector>

// Attention to some of a model's KV heads that another process, or another device, computes.
namespace tessera::lm {

struct SequenceStep;

/// What a model asks for them. Its layers come one after the other, each with both calls.
class HeadsElsewhere {
 public:
  virtual ~HeadsElsewhere() = default;
  /// Of the next layer: [tokens of the step][queries, keys and values of these heads]. Returns at
  /// once.
  virtual void send(std::vector<float> rows) = 0;
  /// What attention makes of that: [tokens][queries]. @throws where it does not come any more
  virtual std::vector<float> receive() = 0;
};

/// The heads, where they are: their cache and their attention, with the bits that the whole model
/// has. No weights.
class AttentionHeads {
 public:
  virtual ~AttentionHeads() = default;
  virtual std::int64_t hidden_size() const = 0;  ///< of the model
  virtual std::int64_t cache_bytes() const = 0;
  /// As KvCache has it.
  virtual void touch() = 0;
  /// The batch of the layers that follow. @throws as LanguageModel::step
  virtual void begin(std::span<const SequenceStep> batch) = 0;
  /// Stores keys and values and attends: rows as HeadsElsewhere::send has them.
  /// @throws Error{out_of_range} for another layer or number of rows than there are
  virtual std::vector<float> attend(std::int64_t layer_index, std::vector<float> rows) = 0;
};

}  // namespace tessera::lm
