#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "tessera/serving/ticks.h"

namespace tessera::serving {

/// Tokens of a prompt (or of what a preempted request had) that a step computes for one request.
struct PromptChunk {
  std::int64_t tokens = 0;
  std::int64_t context_tokens = 0;  ///< in its KV cache before
};

/// Which of a plan's micro-batches a step is.
struct StepUnit {
  std::int64_t micro_batch = -1;  ///< 0-based within its phase; -1: the step is none
  std::int64_t index = 0;         ///< 0-based chunk of prompts, or round of tokens from 1
  bool decodes = false;
};

/// What one step computes, as sums over its requests.
struct StepLoad {
  std::int64_t num_requests = 0;    ///< with at least one token in the step
  std::int64_t tokens = 0;          ///< new ones, of all requests
  std::int64_t context_tokens = 0;  ///< in the KV caches of all of them before the step
  std::int64_t num_sampled = 0;     ///< rows that logits are wanted of
  /// Requests that decode, drafts under verification included in their tokens.
  std::int64_t num_decodes = 0, decode_tokens = 0, decode_context_tokens = 0;
  std::int64_t num_drafted = 0;  ///< requests for which tokens are drafted after the step
  /// Ended requests of a static batch that go on as padding: they are among the decodes.
  std::int64_t num_idle = 0;
  std::vector<PromptChunk> chunks;
  StepUnit unit;

  void clear() {
    unit = {};
    num_requests = tokens = context_tokens = num_sampled = 0;
    num_decodes = decode_tokens = decode_context_tokens = num_drafted = num_idle = 0;
    chunks.clear();
  }
};

/// The time of a decode step of so many requests as a line in their context: exact from
/// `context_tokens` up to `last_context_tokens`, so that steps which add a token to each can be
/// summed in closed form.
struct DecodeLine {
  Ticks ticks = 0;                       ///< at the context asked for
  Ticks ticks_per_token = 0;             ///< of context
  std::int64_t last_context_tokens = 0;  ///< the largest sum of contexts that it holds for
};

/// What a step takes on a replica, stage by stage. Deterministic; not negative.
class StepCost {
 public:
  virtual ~StepCost() = default;

  virtual std::size_t num_stages() const { return 1; }
  /// Time on a stage; the host's is in the first one's. Also of an empty load, which a server takes
  /// that preempted everybody: positive there.
  virtual Ticks stage(const StepLoad& load, std::size_t stage) const = 0;
  /// From a stage to the next.
  virtual Ticks hop(const StepLoad&, std::size_t) const { return 0; }
  /// Whether a link carries one step at a time, as a stage computes one at a time, and a step waits
  /// nowhere that it spends no time; else links delay and never queue.
  virtual bool has_queues() const { return false; }
  /// The same as `stage` of one stage for a step in which so many requests decode one token each
  /// and nothing else is done; absent where steps have no such line (scripts, several stages).
  virtual std::optional<DecodeLine> decode_line(std::int64_t num_requests,
                                                std::int64_t context_tokens) const = 0;
};

/// base_s + per_token_s tokens + per_sequence_s requests + per_context_token_s context.
struct LinearStepCost final : StepCost {
  Ticks base = 0, per_token = 0, per_sequence = 0, per_context_token = 0;

  Ticks stage(const StepLoad& load, std::size_t) const override {
    return sum(load.tokens, load.num_requests, load.context_tokens);
  }
  std::optional<DecodeLine> decode_line(std::int64_t num_requests,
                                        std::int64_t context_tokens) const override {
    return DecodeLine{sum(num_requests, num_requests, context_tokens), per_context_token,
                      std::numeric_limits<std::int64_t>::max()};
  }

 private:
  /// kNever, which no run reaches, where it does not fit.
  Ticks sum(WideTicks tokens, WideTicks requests, WideTicks context_tokens) const {
    const WideTicks ticks =
        base + per_token * tokens + per_sequence * requests + per_context_token * context_tokens;
    return static_cast<Ticks>(ticks < kNever ? ticks : kNever);
  }
};

/// A prompt takes so much, a token so much, however long they are, and each further token of a step
/// so much, as who measured requests alone and in a batch knows; shared out over the stages.
struct RequestStepCost final : StepCost {
  std::vector<Ticks> prompt, token, further;  ///< by stage

  /// @param layers of each stage
  static RequestStepCost of(Ticks prompt, Ticks token, Ticks further,
                            const std::vector<std::int64_t>& layers);

  std::size_t num_stages() const override { return prompt.size(); }
  Ticks stage(const StepLoad& load, std::size_t k) const override {
    const std::int64_t prompts = std::max<std::int64_t>(0, load.num_sampled - load.decode_tokens);
    const std::int64_t tokens = load.tokens == 0 ? 1 : load.decode_tokens;
    return sum(WideTicks{prompt[k]} * prompts, tokens, k);
  }
  std::optional<DecodeLine> decode_line(std::int64_t num_requests, std::int64_t) const override {
    if (num_stages() > 1) return std::nullopt;
    return DecodeLine{sum(0, num_requests, 0), 0, std::numeric_limits<std::int64_t>::max()};
  }

 private:
  Ticks sum(WideTicks prompts, std::int64_t tokens, std::size_t k) const {
    const WideTicks ticks =
        prompts + (tokens > 0 ? token[k] + WideTicks{further[k]} * (tokens - 1) : 0);
    return static_cast<Ticks>(ticks < kNever ? ticks : kNever);
  }
};

}  // namespace tessera::serving
