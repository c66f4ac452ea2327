#include "tessera/solver/deploy/bounds.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "tessera/solver/deploy/step_mix.h"

namespace tessera::solver {
namespace {

using serving::Replica;

// Sizes of batches at which rates are bounded: a row more may take another round of tiles, before
// which a GPU serves most (opt-1.3b on A100: 384 requests 9 % more than 400).
constexpr std::int64_t kBatchSizes[] = {1,   2,   4,   8,   16,  32,  64,  96,  128,
                                        192, 256, 320, 384, 448, 512, 768, 1024};
// Prompts in a step that is priced, at most: more of them cost no less each.
constexpr std::int64_t kMostPrompts = 100'000;
constexpr double kLeast_s = 1e-12;

std::int64_t whole(double value) { return static_cast<std::int64_t>(std::floor(value)); }
double number(std::int64_t value) { return static_cast<double>(value); }

std::int64_t context_of(const MeanLengths& lengths) {
  return whole(lengths.prompt_tokens + lengths.output_tokens / 2);
}

double decode_step_s(const Replica& engine, std::int64_t batch, std::int64_t context) {
  return step_s(*engine.cost, {.num_decodes = batch, .context_tokens = context});
}

/// Requests that an engine holds: seats, or what its KV cache has room for.
std::int64_t most_requests(const Replica& engine, const MeanLengths& lengths,
                           const StepLimits& limits) {
  const double per_request = lengths.prompt_tokens + lengths.output_tokens / 2;
  return std::min(limits.max_num_seqs,
                  std::max<std::int64_t>(1, whole(number(engine.kv_tokens()) / per_request)));
}

/// Seconds that prompts take in the largest step: of each all that is in it, and of each beyond the
/// half of them, when what a step takes anyway is shared with others.
struct PromptTimes {
  double alone_s = 0, shared_s = 0;
};

/// Prompts longer than a step come in chunks with half of the others before them.
PromptTimes prompt_times(const Replica& engine, const MeanLengths& lengths,
                         const StepLimits& limits) {
  const std::int64_t prompt = std::max<std::int64_t>(1, whole(lengths.prompt_tokens));
  const std::int64_t large = std::max<std::int64_t>(2, limits.max_num_batched_tokens);
  const auto price = [&](std::int64_t count, std::int64_t tokens) {
    return step_s(*engine.cost,
                  {.num_prompts = count,
                   .prompt_tokens = tokens,
                   .prompt_context_tokens = std::max<std::int64_t>(0, prompt - large) / 2});
  };
  const std::int64_t count = std::min(large / prompt, kMostPrompts);
  if (count < 2) {
    const std::int64_t tokens = std::min(prompt, large);
    const std::int64_t half = std::max<std::int64_t>(1, tokens / 2);
    const double all_s = price(1, tokens);
    const double alone_s = all_s * number(prompt) / number(tokens);
    const double more_s = (all_s - price(1, half)) * number(prompt) /
                          number(std::max<std::int64_t>(1, tokens - half));
    return {alone_s, std::min(alone_s, more_s)};  // the later half attends to more
  }
  const std::int64_t half = count / 2;
  const double all_s = price(count, prompt);
  const double more_s = (all_s - price(half, prompt)) / number(count - half);
  const double full = number(large) / number(prompt);  // the last of them in part
  return {(all_s + (full - number(count)) * more_s) / full, more_s};
}

/// The largest batch whose decode steps keep to the limit on TPOT; 0: none.
std::int64_t largest_batch(const Replica& engine, std::int64_t context, std::int64_t most,
                           double tpot_limit_s) {
  const auto keeps = [&](std::int64_t batch) {
    return decode_step_s(engine, batch, context) <= tpot_limit_s;
  };
  std::int64_t low = 0, high = 0;
  for (const std::int64_t size : kBatchSizes) {
    const std::int64_t batch = std::min(size, most);
    if (!keeps(batch)) {
      high = batch;
      break;
    }
    low = batch;
    if (batch == most) break;
  }
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (keeps(middle) ? low : high) = middle;
  }
  return low;
}

/// The steady state at a rate: steps of s seconds with B = rate n s decodes and rate p s prompt
/// tokens. Absent where the engine has no room for it.
std::optional<double> steady_step_s(const Replica& engine, const MeanLengths& lengths,
                                    const StepLimits& limits, std::int64_t most, double rate) {
  const std::int64_t context = context_of(lengths);
  double seconds = decode_step_s(engine, 1, context);
  for (int i = 0; i < 30; ++i) {
    const double batch = rate * lengths.output_tokens * seconds;
    const double tokens = rate * lengths.prompt_tokens * seconds;
    if (batch > number(most) || batch + tokens > number(limits.max_num_batched_tokens)) {
      return std::nullopt;
    }
    StepMix mix{.num_decodes = static_cast<std::int64_t>(std::ceil(batch)),
                .context_tokens = context};
    if (tokens >= 1) {
      mix.num_prompts = 1;
      mix.prompt_tokens = whole(tokens);
    }
    const double next_s = step_s(*engine.cost, mix);
    if (std::fabs(next_s - seconds) < 1e-3 * seconds) return next_s;
    seconds += 0.7 * (next_s - seconds);
  }
  return seconds;
}

}  // namespace

EngineBounds bounds_of(const Replica& engine, const MeanLengths& lengths,
                       const StepLimits& limits) {
  const double steps = std::max(1.0, lengths.output_tokens - 1);
  const std::int64_t context = context_of(lengths);
  EngineBounds bounds;
  bounds.ttft_s = step_s(
      *engine.cost,
      {.num_prompts = 1, .prompt_tokens = std::max<std::int64_t>(1, whole(lengths.prompt_tokens))});
  bounds.tpot_s = decode_step_s(engine, 1, context);
  bounds.decode_batch =
      largest_batch(engine, context, most_requests(engine, lengths, limits), limits.tpot_limit_s);
  if (bounds.decode_batch > 0) {
    bounds.decode_step_s = decode_step_s(engine, bounds.decode_batch, context);
    // Fewer may be served faster, where one more takes another round of tiles.
    double fastest = number(bounds.decode_batch) / bounds.decode_step_s;
    for (const std::int64_t size : kBatchSizes) {
      if (size >= bounds.decode_batch) break;
      fastest = std::max(fastest, number(size) / decode_step_s(engine, size, context));
    }
    bounds.decode_rate_per_s = fastest / steps;
  }
  const PromptTimes prompts = prompt_times(engine, lengths, limits);
  bounds.prefill_rate_per_s = 1 / std::max(prompts.alone_s, kLeast_s);
  bounds.rate_per_s = std::min(bounds.decode_rate_per_s, 1 / std::max(prompts.shared_s, kLeast_s));
  return bounds;
}

SteadyRate steady_rate(const Replica& engine, const MeanLengths& lengths, const StepLimits& limits,
                       double bound_per_s) {
  const std::int64_t most = most_requests(engine, lengths, limits);
  SteadyRate found;
  double high = bound_per_s;
  for (int i = 0; i < 12; ++i) {
    const double rate = (found.rate_per_s + high) / 2;
    const std::optional<double> step = steady_step_s(engine, lengths, limits, most, rate);
    if (step && *step <= limits.tpot_limit_s) {
      found = {rate, *step * lengths.output_tokens};
    } else {
      high = rate;
    }
  }
  return found;
}

}  // namespace tessera::solver
