#pragma once

#include "tessera/core/record.h"
#include "tessera/lm/calibration.h"
#include "tessera/lm/perplexity.h"
#include "tessera/lm/zero_shot.h"

/// What scripts give to measurements and read of them.
namespace tessera {

template <>
struct Fields<lm::PerplexityRequest> {
  using R = lm::PerplexityRequest;
  static constexpr auto list = std::tuple{
      field<&R::context_tokens, NotInFiles>(
          {.name = "context_tokens",
           .doc = "Of a segment, or of the window that a stride moves. Default: 2048, or the "
                  "model's context where that is less",
           .unit = "tokens",
           .min = 2,
           .max = kTokensRange.high}),
      field<&R::stride, NotInFiles>(
          {.name = "stride",
           .doc = "The window moves by it and scores what no window before it has. Default: "
                  "segments that share nothing, as in the papers",
           .unit = "tokens",
           .min = 1,
           .max = kTokensRange.high}),
      field<&R::max_tokens, NotInFiles>({.name = "max_tokens",
                                         .doc = "Of the text, from its start. Default: all",
                                         .unit = "tokens",
                                         .min = 2,
                                         .max = kTokensRange.high})};
};

template <>
struct Fields<lm::Perplexity> {
  using P = lm::Perplexity;
  static constexpr auto list = std::tuple{
      field<&P::perplexity, NotInFiles>({.name = "perplexity", .doc = "exp(loss_nats)"}),
      field<&P::loss_nats, NotInFiles>(
          {.name = "loss_nats", .doc = "Mean loss of a token", .unit = "nats"}),
      field<&P::standard_error, NotInFiles>(
          {.name = "standard_error",
           .doc = "Of loss_nats: what another text of this kind might give",
           .unit = "nats"}),
      field<&P::num_tokens, NotInFiles>({.name = "num_tokens", .doc = "Predicted"}),
      field<&P::num_segments, NotInFiles>({.name = "num_segments", .doc = "Or windows"}),
      field<&P::num_left_tokens, NotInFiles>(
          {.name = "num_left_tokens", .doc = "Behind the last whole segment, not scored"}),
      field<&P::context_tokens, NotInFiles>(
          {.name = "context_tokens", .doc = "Of a segment", .unit = "tokens"}),
      field<&P::seconds, NotInFiles>({.name = "seconds", .doc = "Time it took", .unit = "s"}),
      field<&P::tok_s, NotInFiles>(
          {.name = "tok_s", .doc = "Tokens run through the model", .unit = "tok/s"}),
      field<&P::kl_nats, NotInFiles>(
          {.name = "kl_nats",
           .doc = "Divergence from the reference, mean over tokens; absent without one",
           .unit = "nats"}),
      field<&P::kl_standard_error, NotInFiles>(
          {.name = "kl_standard_error", .doc = "Of kl_nats", .unit = "nats"}),
      field<&P::loss_increase_nats, NotInFiles>(
          {.name = "loss_increase_nats",
           .doc = "loss_nats less the reference's on the same tokens; absent without one",
           .unit = "nats"}),
      field<&P::loss_increase_standard_error, NotInFiles>(
          {.name = "loss_increase_standard_error",
           .doc = "Of loss_increase_nats, from the differences token by token",
           .unit = "nats"}),
      field<&P::partial, NotInFiles>(
          {.name = "partial", .doc = "Ctrl-C ended it: of the tokens until then"})};
};

template <>
struct Fields<lm::ZeroShotRequest> {
  using R = lm::ZeroShotRequest;
  static constexpr auto list = std::tuple{
      field<&R::task, NotInFiles>(
          {.name = "task", .doc = "What the items are", .as_option = AsOption::required}),
      field<&R::special, NotInFiles>({.name = "special",
                                      .doc = "Contexts with the tokenizer's first token",
                                      .as_option = AsOption::defaulted})};
};

template <>
struct Fields<lm::ZeroShotAnswer> {
  using A = lm::ZeroShotAnswer;
  static constexpr auto list = std::tuple{
      field<&A::log_likelihoods, NotInFiles>({.name = "log_likelihoods", .doc = "Of each choice"}),
      field<&A::is_right, NotInFiles>({.name = "is_right", .doc = "By log-likelihood"}),
      field<&A::is_right_norm, NotInFiles>(
          {.name = "is_right_norm", .doc = "By log-likelihood per character"})};
};

template <>
struct Fields<lm::ZeroShotResult> {
  using R = lm::ZeroShotResult;
  static constexpr auto list = std::tuple{
      field<&R::accuracy, NotInFiles>({.name = "accuracy", .doc = "Share of right answers"}),
      field<&R::standard_error, NotInFiles>({.name = "standard_error", .doc = "Of accuracy"}),
      field<&R::accuracy_norm, NotInFiles>(
          {.name = "accuracy_norm",
           .doc = "The same by log-likelihood per character; absent without choices"}),
      field<&R::accuracy_norm_standard_error, NotInFiles>(
          {.name = "accuracy_norm_standard_error", .doc = "Of accuracy_norm"}),
      field<&R::perplexity, NotInFiles>({.name = "perplexity", .doc = "Of a word, of lambada"}),
      field<&R::perplexity_standard_error, NotInFiles>(
          {.name = "perplexity_standard_error", .doc = "Of perplexity"}),
      field<&R::num_items, NotInFiles>({.name = "num_items", .doc = "Answered"}),
      field<&R::seconds, NotInFiles>({.name = "seconds", .doc = "Time it took", .unit = "s"}),
      field<&R::partial, NotInFiles>(
          {.name = "partial", .doc = "Ctrl-C ended it: of the items until then"}),
      field<&R::answers, NotInFiles>(
          {.name = "answers", .doc = "{ log_likelihoods, is_right, is_right_norm } of each item"})};
};

template <>
struct Fields<lm::CalibrationRequest> {
  using R = lm::CalibrationRequest;
  static constexpr auto list = std::tuple{
      field<&R::out, NotInFiles>({.name = "out",
                                  .doc = "File to write (safetensors; tessera man statistics)",
                                  .as_option = AsOption::required}),
      field<&R::num_samples, NotInFiles>({.name = "num_samples",
                                          .doc = "Consecutive pieces of the text, from its start",
                                          .min = 1,
                                          .max = 1e6,
                                          .as_option = AsOption::defaulted}),
      field<&R::sample_tokens, NotInFiles>({.name = "sample_tokens",
                                            .doc = "Of each piece. Default: 512, or the model's "
                                                   "context where that is less",
                                            .unit = "tokens",
                                            .min = 1,
                                            .max = kTokensRange.high}),
      field<&R::with_hessian, NotInFiles>(
          {.name = "with_hessian",
           .doc = "With what gptq and the Hessian's indicators need",
           .as_option = AsOption::defaulted}),
      field<&R::layers_at_once, NotInFiles>(
          {.name = "layers_at_once",
           .doc = "The text is run again for each so many layers, whose sums alone are in memory; "
                  "0: once",
           .min = 0,
           .max = kLayersRange.high,
           .as_option = AsOption::defaulted})};
};

template <>
struct Fields<lm::Calibration> {
  using C = lm::Calibration;
  static constexpr auto list = std::tuple{
      field<&C::num_inputs, NotInFiles>(
          {.name = "num_inputs", .doc = "Of matrices; those that share one count once"}),
      field<&C::num_tokens, NotInFiles>({.name = "num_tokens", .doc = "Of the text"}),
      field<&C::seconds, NotInFiles>({.name = "seconds", .doc = "Time it took", .unit = "s"})};
};

}  // namespace tessera
