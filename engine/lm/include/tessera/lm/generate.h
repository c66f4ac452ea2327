#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/record.h"
#include "tessera/lm/language_model.h"
#include "tessera/lm/sampling.h"
#include "tessera/lm/slots.h"

namespace tessera::lm {

/// Why a text ended.
enum class StopReason { stop_token, max_tokens, context, on_token, interrupted };

struct GenerateRequest {
  SamplingOptions sampling;
  std::int64_t max_tokens = 128;  ///< at most; fewer where the model's context ends
  bool ignore_stop_tokens = false;
  /// Gets what became complete of the text, valid UTF-8 and often "" in the middle of a character,
  /// and the token that completed it; absent for what was left at the end. false ends the text.
  std::function<bool(std::string_view piece, std::optional<std::int32_t> id)> on_token = {};
  std::function<bool()> interrupted = {};  ///< asked before every step: what is done is kept
};

struct Generation {
  std::string text;                  ///< of `tokens`, without the prompt; valid UTF-8
  std::vector<std::int32_t> tokens;  ///< without the one that ended it
  std::int64_t prompt_tokens = 0;
  double prompt_s = 0;           ///< until the prompt is in the cache
  std::optional<double> ttft_s;  ///< until the first token
  std::optional<double> tpot_s;  ///< mean time of each further step; absent where there was none
  StopReason stop_reason = StopReason::max_tokens;
};

}  // namespace tessera::lm

namespace tessera {

template <>
inline constexpr auto kEnumNames<lm::StopReason> =
    enum_names<lm::StopReason>({{lm::StopReason::stop_token, "stop_token"},
                                {lm::StopReason::max_tokens, "max_tokens"},
                                {lm::StopReason::context, "context"},
                                {lm::StopReason::on_token, "on_token"},
                                {lm::StopReason::interrupted, "interrupted"}});

template <>
struct Fields<lm::GenerateRequest> {
  using Request = lm::GenerateRequest;
  static constexpr auto list = std::tuple{
      field<&Request::max_tokens>(
          {.name = "max_tokens",
           .doc = "Most tokens of the text; fewer where the model's context ends",
           .unit = "tokens",
           .min = 1,
           .max = kTokensRange.high,
           .as_option = AsOption::defaulted}),
      field<&Request::ignore_stop_tokens>({.name = "ignore_stop_tokens",
                                           .doc = "Goes on where the model ends its text",
                                           .as_option = AsOption::defaulted})};
};

template <>
struct Fields<lm::Generation> {
  using G = lm::Generation;
  static constexpr auto list = std::tuple{
      field<&G::text, NotInFiles>({.name = "text", .doc = "What follows the prompt"}),
      field<&G::tokens, NotInFiles>(
          {.name = "tokens", .doc = "Its tokens, without the one that ended it"}),
      field<&G::prompt_tokens, NotInFiles>(
          {.name = "prompt_tokens", .doc = "Length of the prompt", .unit = "tokens"}),
      field<&G::prompt_s, NotInFiles>(
          {.name = "prompt_s", .doc = "Time of the prompt's passes", .unit = "s"}),
      field<&G::ttft_s, NotInFiles>(
          {.name = "ttft_s", .doc = "Time to the first token", .unit = "s"}),
      field<&G::tpot_s, NotInFiles>(
          {.name = "tpot_s", .doc = "Mean time of a token after the first", .unit = "s"}),
      field<&G::stop_reason, NotInFiles>(
          {.name = "stop_reason",
           .doc = "stop_token: the model ended it; max_tokens, context: it is as long as it may "
                  "be; on_token: that returned false; interrupted: Ctrl-C"})};
};

}  // namespace tessera

namespace tessera::lm {

/// Continues a prompt of at least one token, on a cache of its own.
/// @throws Error{out_of_range} for a prompt that fills the model's context, or a token beyond its
/// vocabulary; Error{invalid_argument} for no tokens, or logits that are not finite
Generation generate(const LanguageModel& model, const std::vector<std::int32_t>& prompt,
                    const GenerateRequest& request);

/// @throws Error{out_of_range} naming `path` and the item (from 1, as scripts count) unless all are
/// tokens of the model
void check_tokens(const LanguageModel& model, const std::vector<std::int32_t>& ids,
                  const std::string& path);

/// One sequence on a cache of its own, a piece at a time.
class Sequence {
 public:
  /// @param max_tokens that it will have
  Sequence(const LanguageModel& model, std::int64_t max_tokens);

  std::int64_t num_tokens() const { return num_tokens_; }
  std::int64_t cache_bytes() const { return slots_.cache().bytes(); }

  /// `logits` [any number of rows][vocab_size] gets those after the last so many of the tokens.
  void add(std::span<const std::int32_t> tokens, std::span<float> logits);

 private:
  const LanguageModel& model_;
  Slots slots_;
  std::int64_t num_tokens_ = 0;
};

/// Tokens of a prompt that pass through the model at once: Ctrl-C is looked for between them.
inline constexpr std::int64_t kChunkTokens = 512;

/// Logits after each of `ids`, [ids.size()][vocab_size], a chunk at a time.
/// @throws as generate; Error{interrupted}
std::vector<float> logits_of(const LanguageModel& model, const std::vector<std::int32_t>& ids,
                             const std::function<bool()>& interrupted = {});

}  // namespace tessera::lm
