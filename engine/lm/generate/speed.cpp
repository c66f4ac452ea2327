#include "tessera/lm/speed.h"

#include <algorithm>
#include <chrono>

#include "tessera/core/error.h"
#include "tessera/core/rng.h"
#include "tessera/lm/slots.h"

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

// Sequences of one length, each with tokens of its own, that go on by as many tokens at a time.
class SideBySide {
 public:
  /// @param tokens those of a sequence behind those of the one before
  SideBySide(const LanguageModel& model, std::span<const std::int32_t> tokens,
             std::int64_t batch_size)
      : model_(model),
        tokens_(tokens),
        length_(static_cast<std::int64_t>(tokens.size()) / batch_size),
        slots_(model, batch_size, length_),
        steps_(static_cast<std::size_t>(batch_size)),
        logits_(static_cast<std::size_t>(batch_size * model.shape().vocab_size)) {}

  std::int64_t cache_bytes() const { return slots_.cache().bytes(); }

  void add(std::int64_t count) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const auto slot = static_cast<std::int64_t>(i);
      steps_[i] = {.tokens = tokens_.subspan(static_cast<std::size_t>(slot * length_ + done_),
                                             static_cast<std::size_t>(count)),
                   .context_tokens = done_,
                   .block_table = slots_.blocks(slot, done_ + count)};
    }
    model_.step(steps_, slots_.cache(), logits_);
    done_ += count;
  }

 private:
  const LanguageModel& model_;
  std::span<const std::int32_t> tokens_;
  std::int64_t length_, done_ = 0;
  Slots slots_;
  std::vector<SequenceStep> steps_;
  std::vector<float> logits_;
};

}  // namespace

Speed measure_speed(const LanguageModel& model, const SpeedRequest& request) {
  Speed speed = lengths(model, request);
  const std::int64_t batch_size = request.batch_size;
  const std::int64_t length = speed.context_tokens + speed.output_tokens;
  const auto prompts = random_tokens(model, batch_size * speed.prompt_tokens, request.seed);
  const auto texts = random_tokens(model, batch_size * length, request.seed + 1);
  for (std::int64_t run = -1; run < request.repeats; ++run) {  // the first one warms caches
    if (request.interrupted && request.interrupted()) break;
    SideBySide prefill(model, prompts, batch_size);
    SideBySide decode(model, texts, batch_size);
    Stopwatch watch;
    prefill.add(speed.prompt_tokens);
    const double prefill_s = watch.lap_s();
    decode.add(speed.context_tokens);
    watch.lap_s();
    for (std::int64_t i = 0; i < speed.output_tokens; ++i) decode.add(1);
    const double decode_s = watch.lap_s();
    speed.kv_cache_bytes = decode.cache_bytes();
    if (run < 0) continue;
    speed.prefill_tok_s.push_back(static_cast<double>(batch_size * speed.prompt_tokens) /
                                  prefill_s);
    speed.decode_tok_s.push_back(static_cast<double>(batch_size * speed.output_tokens) / decode_s);
    if (request.progress) request.progress(run + 1, request.repeats);
  }
  return speed;
}

}  // namespace tessera::lm
