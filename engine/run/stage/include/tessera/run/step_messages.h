#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/kernels/types.h"
#include "tessera/lm/sampling.h"
#include "tessera/run/message.h"
#include "tessera/run/transport.h"

/// What stages are told of a step, and what they say of it.
namespace tessera::run {

/// A request's part in a step.
struct StepItem {
  std::int64_t request = 0;
  std::int64_t tokens = 1;                     ///< to compute
  std::int64_t context_tokens = 0;             ///< in its cache before
  std::int64_t draw = -1;                      ///< of its next token, from 0; -1: none is sampled
  std::vector<std::int32_t> token_ids = {};    ///< [tokens] for the first stage; else empty
  std::vector<std::int32_t> block_table = {};  ///< blocks for context_tokens + tokens

  friend bool operator==(const StepItem&, const StepItem&) = default;
};

/// How a request's tokens are drawn, for the last stage: once, before its first one.
struct NewSampler {
  std::int64_t request = 0;
  lm::SamplingOptions options = {};
  std::vector<std::int32_t> text = {};  ///< tokens so far, where the options penalise them

  friend bool operator==(const NewSampler& a, const NewSampler& b) {
    return a.request == b.request && a.text == b.text && a.options.seed == b.options.seed &&
           a.options.temperature == b.options.temperature && a.options.top_k == b.options.top_k &&
           a.options.top_p == b.options.top_p &&
           a.options.repetition_penalty == b.options.repetition_penalty;
  }
};

struct StepOrder {
  Nanoseconds least_time = 0;  ///< that it takes here: of a device that is emulated
  /// From the end of the stage before to this one, of a link that is emulated; on the first stage
  /// from when the order came.
  Nanoseconds link_time = 0;
  std::vector<StepItem> items;
  std::vector<NewSampler> samplers;
  std::vector<std::int64_t> gone;  ///< requests whose samplers nobody needs any more

  friend bool operator==(const StepOrder&, const StepOrder&) = default;
};

/// When a stage computed, by its own clock, and what it sent on.
struct StageTimes {
  Nanoseconds start = 0;
  Nanoseconds computed = 0;  ///< before `end` where another device is emulated
  Nanoseconds end = 0;
  std::int64_t sent_bytes = 0;  ///< of hidden states or tokens, to each that it feeds

  friend bool operator==(const StageTimes&, const StageTimes&) = default;
};

/// From a stage to the next.
struct HiddenStates {
  std::vector<StageTimes> times;  ///< of the stages before
  std::vector<float> rows;        ///< [tokens of the step][hidden_size]
  /// On the way. What has no number of 16 bits near it (f16 ends at 65,504) is refused.
  kernels::Real dtype = kernels::Real::f32;

  std::int64_t sent_bytes() const {
    return std::ssize(rows) * (dtype == kernels::Real::f32 ? 4 : 2);
  }

  friend bool operator==(const HiddenStates&, const HiddenStates&) = default;
};

/// Of a layer, for every token of a step: queries, keys and values of heads that are elsewhere, or
/// what attention makes of them.
struct HeadRows {
  Nanoseconds sent = 0;  ///< by the sender's clock
  std::int64_t layer = 0;
  std::vector<float> rows;

  std::int64_t sent_bytes() const { return std::ssize(rows) * 4; }

  friend bool operator==(const HeadRows&, const HeadRows&) = default;
};

/// What came of a step.
struct StepTokens {
  std::vector<StageTimes> times;        ///< of all stages
  std::vector<std::int32_t> token_ids;  ///< [items]; -1: none was sampled

  friend bool operator==(const StepTokens&, const StepTokens&) = default;
};

/// Blocks of a request that was read, from a stage to those of an engine that decodes it which have
/// layers of it.
struct GiveOrder {
  struct Part {
    std::int32_t rank = 0;
    std::int64_t first_layer = 0, last_layer = 0;

    friend bool operator==(const Part&, const Part&) = default;
  };
  std::vector<std::int32_t> from = {}, to = {};  ///< [blocks] their names here and there
  std::vector<Part> parts = {};
  /// Steps up to this one may still write what the blocks held before there: they come first.
  std::int64_t after_step = -1;

  friend bool operator==(const GiveOrder&, const GiveOrder&) = default;
};

/// What they hold.
struct Blocks {
  std::int64_t first_layer = 0, last_layer = 0;
  std::int64_t after_step = -1;      ///< as GiveOrder has it
  std::vector<std::int32_t> blocks;  ///< of the receiver
  std::vector<std::byte> data;       ///< as lm::KvCache reads and writes it

  friend bool operator==(const Blocks&, const Blocks&) = default;
};

std::vector<std::byte> body_of(const StepOrder& order);
std::vector<std::byte> body_of(const HiddenStates& hidden);
std::vector<std::byte> body_of(const HeadRows& heads);
std::vector<std::byte> body_of(const StepTokens& tokens);
std::vector<std::byte> body_of(const GiveOrder& order);
std::vector<std::byte> body_of(const Blocks& blocks);
/// @throws Error{invalid_argument} for a body that is none, out_of_range for lengths below 0
StepOrder step_order_of(const Message& message);
HiddenStates hidden_states_of(const Message& message);
HeadRows head_rows_of(const Message& message);
StepTokens step_tokens_of(const Message& message);
GiveOrder give_order_of(const Message& message);
Blocks blocks_of(const Message& message);

}  // namespace tessera::run
