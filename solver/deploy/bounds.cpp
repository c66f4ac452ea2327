#include "tessera/solver/deploy/bounds.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/solver/deploy/step_mix.h"
#include "tessera/solver/mip/cbc.h"

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

/// Of a token that is decoded.
double decode_context_of(const MeanLengths& lengths) {
  return lengths.decode_context_tokens.value_or(lengths.prompt_tokens + lengths.output_tokens / 2);
}

double decode_step_s(const Replica& engine, std::int64_t batch, std::int64_t context) {
  return step_s(*engine.cost, {.num_decodes = batch, .context_tokens = context});
}

/// How long a step keeps a pipeline from others at least, which has one under way for each stage.
double taken_s(const Replica& engine, const StepMix& mix) {
  const StepTimes times = step_times(*engine.cost, mix);
  const double slowest_s = *std::max_element(times.stage_s.begin(), times.stage_s.end());
  return std::max(slowest_s, times.whole_s / number(engine.num_stages()));
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
    return taken_s(engine,
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

/// A kind of step: so many requests decode, and so much of prompts is read beside them.
struct PricedStep {
  double decodes = 0;
  double prompts = 0;  ///< read in it, parts of one too
  StepTimes times;
};

// Parts of a prompt, or so many of them, that a step beside decodes is priced with.
constexpr double kPromptsOfStep[] = {0,  1.0 / 32, 1.0 / 16, 0.125, 0.25, 0.5, 0.75, 1,  1.5,
                                     2,  3,        4,        6,     8,    12,  16,   24, 32,
                                     48, 64,       96,       128,   256,  512, 1024};

/// Adds the steps beside so many decodes, from the one without a prompt on.
void add_steps(const Replica& engine, const MeanLengths& lengths, const StepLimits& limits,
               std::int64_t batch, std::vector<PricedStep>& steps) {
  const double prompt = std::max(1.0, std::floor(lengths.prompt_tokens));
  const double room = number(limits.max_num_batched_tokens - batch);
  const auto add = [&](double prompts) {
    StepMix mix{.num_decodes = batch, .context_tokens = whole(decode_context_of(lengths))};
    if (prompts > 0) {
      mix.num_prompts = std::max<std::int64_t>(1, whole(prompts));
      mix.prompt_tokens =
          std::max<std::int64_t>(1, whole(prompts * prompt / number(mix.num_prompts)));
      if (prompts < 1) {
        mix.prompt_context_tokens = std::max<std::int64_t>(0, whole((1 - prompts) * prompt / 2));
      }
      prompts = number(mix.num_prompts * mix.prompt_tokens) / prompt;
    }
    if (batch + mix.num_prompts == 0) return;
    steps.push_back({number(batch), prompts, step_times(*engine.cost, mix)});
  };
  for (const double prompts : kPromptsOfStep) {
    if (prompts * prompt > room) {
      add(room / prompt);
      break;
    }
    add(prompts);
    if (lengths.shares_prompts) break;
  }
}

/// The linear programme of how often an engine takes each kind of step: its first column is the
/// rate, every other one the steps of a kind in a second.
LinearModel steps_programme(const std::vector<PricedStep>& steps, const Replica& engine,
                            const MeanLengths& lengths, double seats, double tpot_limit_s) {
  LinearModel programme;
  const auto row = [&](double low, double high, double of_rate, const auto& of_step) {
    std::vector<LinearModel::Term> terms;
    if (of_rate != 0) terms.emplace_back(0, of_rate);
    for (std::size_t i = 0; i < steps.size(); ++i) terms.emplace_back(i + 1, of_step(steps[i]));
    programme.add_row(low, high, std::move(terms));
  };
  programme.add_column(0, kFree, -1);
  for (std::size_t i = 0; i < steps.size(); ++i) programme.add_column(0, kFree);
  const std::size_t stages = engine.cost->num_stages();
  for (std::size_t k = 0; k < stages; ++k) {  // one step at a time
    row(0, 1, 0, [k](const PricedStep& s) { return s.times.stage_s[k]; });
  }
  const double in_flight = number(engine.num_stages() + (engine.async_scheduling() ? 1 : 0));
  if (stages > 1) row(0, in_flight, 0, [](const PricedStep& s) { return s.times.whole_s; });
  if (!lengths.shares_prompts) row(0, kFree, -1, [](const PricedStep& s) { return s.prompts; });
  // The first token comes of the prompt, and a step brings drafts besides.
  const double drafts =
      engine.engine.speculative ? number(engine.engine.speculative->num_tokens) : 0;
  const double tokens = std::max(0.0, lengths.output_tokens - 1);
  row(0, kFree, -tokens, [drafts](const PricedStep& s) { return s.decodes * (1 + drafts); });
  const auto decoding_s = [](const PricedStep& s) { return s.decodes * s.times.whole_s; };
  if (std::isfinite(tpot_limit_s)) row(-kFree, 0, -tokens * tpot_limit_s, decoding_s);
  row(0, seats, 0, decoding_s);
  return programme;
}

}  // namespace

double mixed_rate_per_s(const Replica& engine, const MeanLengths& lengths,
                        const StepLimits& limits) {
  const double held = lengths.shares_prompts
                          ? kFree
                          : number(engine.kv_tokens()) / std::max(1.0, decode_context_of(lengths));
  const double seats = std::min(number(limits.max_num_seqs), std::max(1.0, held));
  const std::int64_t most =
      std::min(static_cast<std::int64_t>(std::ceil(seats)), limits.max_num_batched_tokens);
  std::vector<PricedStep> steps;
  add_steps(engine, lengths, limits, 0, steps);
  for (const std::int64_t size : kBatchSizes) {
    add_steps(engine, lengths, limits, std::min(size, most), steps);
    if (size >= most) break;
  }
  if (most > *std::rbegin(kBatchSizes)) add_steps(engine, lengths, limits, most, steps);
  LpSolver lp(steps_programme(steps, engine, lengths, seats, limits.tpot_limit_s),
              [] { return false; });
  const LpSolver::Solution solution = lp.minimise();
  if (solution.outcome != LpSolver::Outcome::optimal) {
    throw Error(ErrorCode::solver, "the linear programme of an engine's steps was not solved");
  }
  return -solution.objective;
}

EngineBounds bounds_of(const Replica& engine, const MeanLengths& lengths,
                       const StepLimits& limits) {
  const double steps = std::max(1.0, lengths.output_tokens - 1);
  const std::int64_t context = context_of(lengths);
  EngineBounds bounds;
  bounds.ttft_s = step_s(
      *engine.cost,
      {.num_prompts = 1, .prompt_tokens = std::max<std::int64_t>(1, whole(lengths.prompt_tokens))});
  bounds.tpot_s = decode_step_s(engine, 1, context);
  const std::int64_t stages = engine.num_stages();
  const std::int64_t most = (most_requests(engine, lengths, limits) + stages - 1) / stages;
  bounds.decode_batch = largest_batch(engine, context, most, limits.tpot_limit_s);
  if (bounds.decode_batch > 0) {
    bounds.decode_step_s = decode_step_s(engine, bounds.decode_batch, context);
    // Fewer may be served faster, where one more takes another round of tiles.
    const auto decodes_per_s = [&](std::int64_t size) {
      return number(size) / taken_s(engine, {.num_decodes = size, .context_tokens = context});
    };
    double fastest = decodes_per_s(bounds.decode_batch);
    for (const std::int64_t size : kBatchSizes) {
      if (size >= bounds.decode_batch) break;
      fastest = std::max(fastest, decodes_per_s(size));
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
