#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/lm/language_model.h"

namespace tessera::lm {

struct SpeedRequest {
  std::optional<std::int64_t> prompt_tokens = {};  ///< absent: 512, or the model's context
  std::optional<std::int64_t> context_tokens =
      {};  ///< in the cache when decoding starts; 128, or half
  std::optional<std::int64_t> output_tokens = {};  ///< 128, or what context_tokens leave
  std::int64_t batch_size = 1;                     ///< sequences that run side by side
  std::int64_t repeats = 5;
  std::uint64_t seed = 0;  ///< of the tokens, which are random
  std::function<bool()> interrupted = {};
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

/// Of each repeat; fewer where somebody interrupted.
struct Speed {
  std::vector<double> prefill_tok_s, decode_tok_s;  ///< of all sequences together
  std::int64_t prompt_tokens = 0, context_tokens = 0, output_tokens = 0;  ///< of each, as measured
  std::int64_t kv_cache_bytes = 0;  ///< of the cache that decoding used
};

}  // namespace tessera::lm

namespace tessera {

template <>
struct Fields<lm::SpeedRequest> {
  using Request = lm::SpeedRequest;
  static constexpr auto list = std::tuple{
      field<&Request::prompt_tokens>(
          {.name = "prompt_tokens",
           .doc = "Length of the prompt that is prefilled at once. Default: 512, or the "
                  "model's context where that is less",
           .unit = "tokens",
           .min = 1,
           .max = kTokensRange.high}),
      field<&Request::context_tokens>(
          {.name = "context_tokens",
           .doc = "In the cache when decoding starts. Default: 128, or half of the "
                  "model's context where that is less",
           .unit = "tokens",
           .min = 1,
           .max = kTokensRange.high}),
      field<&Request::output_tokens>(
          {.name = "output_tokens",
           .doc = "Steps of decoding that are timed together. Default: 128, or what "
                  "the model's context leaves",
           .unit = "tokens",
           .min = 1,
           .max = kTokensRange.high}),
      field<&Request::batch_size>({.name = "batch_size",
                                   .doc = "Sequences that are prefilled and decoded side by side; "
                                          "rates are of all of them",
                                   .min = 1,
                                   .max = 1024,
                                   .as_option = AsOption::defaulted}),
      field<&Request::repeats>({.name = "repeats",
                                .doc = "How often, after a first time that does not count",
                                .min = 1,
                                .max = 1000,
                                .as_option = AsOption::defaulted}),
      field<&Request::seed>({.name = "seed",
                             .doc = "Of the tokens, which are random",
                             .min = 0,
                             .max = kMaxExactInteger,
                             .as_option = AsOption::defaulted})};
};

template <>
struct Fields<lm::Speed> {
  static constexpr auto list = std::tuple{
      field<&lm::Speed::prefill_tok_s, NotInFiles>({.name = "prefill_tok_s",
                                                    .doc = "Rate of each prefill, of all sequences",
                                                    .unit = "tok/s"}),
      field<&lm::Speed::decode_tok_s, NotInFiles>({.name = "decode_tok_s",
                                                   .doc = "Rate of each decoding, of all sequences",
                                                   .unit = "tok/s"}),
      field<&lm::Speed::prompt_tokens, NotInFiles>(
          {.name = "prompt_tokens", .doc = "Of the prompt", .unit = "tokens"}),
      field<&lm::Speed::context_tokens, NotInFiles>(
          {.name = "context_tokens", .doc = "Before the first decoded one", .unit = "tokens"}),
      field<&lm::Speed::output_tokens, NotInFiles>(
          {.name = "output_tokens", .doc = "Decoded", .unit = "tokens"}),
      field<&lm::Speed::kv_cache_bytes, NotInFiles>(
          {.name = "kv_cache_bytes", .doc = "Of the cache that decoding used", .unit = "bytes"})};
};

}  // namespace tessera

namespace tessera::lm {

/// How fast sequences are: their prompts at once, then a token of each at a time.
/// @throws Error{out_of_range} where the model's context is shorter
Speed measure_speed(const LanguageModel& model, const SpeedRequest& request);

}  // namespace tessera::lm
