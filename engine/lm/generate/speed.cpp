#include "tessera/lm/speed.h"

#include <algorithm>
#include <chrono>

#include "tessera/core/error.h"
#include "tessera/core/rng.h"
#include "tessera/lm/generate.h"

namespace tessera::lm {
namespace {

using SteadyClock = std::chrono::steady_clock;

std::vector<std::int32_t> random_tokens(const LanguageModel& model, std::int64_t count,
                                        std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::int32_t>(rng.integer(0, model.shape().vocab_size - 1)));
  }
  return tokens;
}

class Stopwatch {
 public:
  double lap_s() {
    const SteadyClock::time_point now = SteadyClock::now();
    const double passed = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return passed;
  }

 private:
  SteadyClock::time_point last_ = SteadyClock::now();
};

// The lengths of a request, those not given as long as the model's context allows.
Speed lengths(const LanguageModel& model, const SpeedRequest& request) {
  const std::int64_t longest = model.shape().max_context_tokens;
  Speed speed;
  speed.prompt_tokens = request.prompt_tokens.value_or(std::min<std::int64_t>(512, longest));
  speed.context_tokens = request.context_tokens.value_or(
      std::clamp<std::int64_t>(longest - request.output_tokens.value_or(longest / 2), 1, 128));
  speed.output_tokens =
      request.output_tokens.value_or(std::min<std::int64_t>(128, longest - speed.context_tokens));
  if (speed.prompt_tokens > longest) {
    refuse(ErrorCode::out_of_range, "prompt_tokens",
           "{} tokens are more than the context of {}, {} tokens", speed.prompt_tokens,
           model.shape().name, longest);
  }
  if (speed.output_tokens < 1 || speed.context_tokens + speed.output_tokens > longest) {
    refuse(
        ErrorCode::out_of_range, "context_tokens",
        "context_tokens {} and output_tokens {} do not fit into the context of {}, {} tokens; at "
        "least one of each is needed",
        request.context_tokens.value_or(speed.context_tokens),
        request.output_tokens.value_or(speed.output_tokens), model.shape().name, longest);
  }
  return speed;
}

}  // namespace

Speed measure_speed(const LanguageModel& model, const SpeedRequest& request) {
  Speed speed = lengths(model, request);
  const auto prompt = random_tokens(model, speed.prompt_tokens, request.seed);
  const auto text =
      random_tokens(model, speed.context_tokens + speed.output_tokens, request.seed + 1);
  const auto context = static_cast<std::size_t>(speed.context_tokens);
  std::vector<float> logits(static_cast<std::size_t>(model.shape().vocab_size));
  for (std::int64_t run = -1; run < request.repeats; ++run) {  // the first one warms caches
    if (request.interrupted && request.interrupted()) break;
    Sequence prefill(model, speed.prompt_tokens);
    Sequence decode(model, static_cast<std::int64_t>(text.size()));
    Stopwatch watch;
    prefill.add(prompt, logits);
    const double prefill_s = watch.lap_s();
    decode.add(std::span(text).first(context), logits);
    watch.lap_s();
    for (std::size_t i = context; i < text.size(); ++i) {
      decode.add(std::span(text).subspan(i, 1), logits);
    }
    const double decode_s = watch.lap_s();
    speed.kv_cache_bytes = decode.cache_bytes();
    if (run < 0) continue;
    speed.prefill_tok_s.push_back(static_cast<double>(speed.prompt_tokens) / prefill_s);
    speed.decode_tok_s.push_back(static_cast<double>(speed.output_tokens) / decode_s);
    if (request.progress) request.progress(run + 1, request.repeats);
  }
  return speed;
}

}  // namespace tessera::lm
