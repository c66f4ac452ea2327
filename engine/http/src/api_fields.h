#pragma once

#include "api_request.h"

namespace tessera {

template <>
struct Fields<http::ApiRequest> {
  using R = http::ApiRequest;
  static constexpr double kMostTokens = 1e9;
  static constexpr auto kWhenSet = InFile::when_set;
  static constexpr auto list = std::tuple{
      field<&R::model>({.name = "model", .doc = "Its name", .in_file = kWhenSet}),
      field<&R::prompt>({.name = "prompt", .doc = "To be continued", .in_file = kWhenSet}),
      field<&R::messages>({.name = "messages", .doc = "Of a chat", .in_file = kWhenSet}),
      field<&R::max_tokens>({.name = "max_tokens",
                             .doc = "Of an answer at most; 0: with echo the prompt alone",
                             .min = 0,
                             .max = kMostTokens,
                             .in_file = kWhenSet}),
      field<&R::max_completion_tokens>({.name = "max_completion_tokens",
                                        .doc = "The same",
                                        .min = 0,
                                        .max = kMostTokens,
                                        .in_file = kWhenSet}),
      field<&R::temperature>({.name = "temperature",
                              .doc = "0: the likeliest token",
                              .min = 0,
                              .max = 2,
                              .in_file = kWhenSet}),
      field<&R::top_p>({.name = "top_p",
                        .doc = "Share of the likeliest tokens",
                        .min = 0,
                        .max = 1,
                        .in_file = kWhenSet}),
      field<&R::top_k>({.name = "top_k",
                        .doc = "So many of the likeliest; 0 or -1: all",
                        .min = -1,
                        .max = 1e9,
                        .in_file = kWhenSet}),
      field<&R::min_tokens>({.name = "min_tokens",
                             .doc = "Before the model may end",
                             .min = 0,
                             .max = kMostTokens,
                             .in_file = kWhenSet}),
      field<&R::n>(
          {.name = "n", .doc = "Answers to a prompt", .min = 1, .max = 128, .in_file = kWhenSet}),
      field<&R::repetition_penalty>({.name = "repetition_penalty",
                                     .doc = "Against tokens of the text so far",
                                     .min = 0.01,
                                     .max = 100,
                                     .in_file = kWhenSet}),
      field<&R::presence_penalty>({.name = "presence_penalty",
                                   .doc = "Against generated tokens",
                                   .min = -2,
                                   .max = 2,
                                   .in_file = kWhenSet}),
      field<&R::frequency_penalty>({.name = "frequency_penalty",
                                    .doc = "The same, each time",
                                    .min = -2,
                                    .max = 2,
                                    .in_file = kWhenSet}),
      field<&R::seed>({.name = "seed",
                       .doc = "Of the draws; answer i draws by it + i",
                       .min = 0,
                       .max = 9e15,
                       .in_file = kWhenSet}),
      field<&R::stop_token_ids>({.name = "stop_token_ids",
                                 .doc = "Tokens that end an answer too",
                                 .min = 0,
                                 .max = 1e9,
                                 .in_file = kWhenSet}),
      field<&R::ignore_eos>(
          {.name = "ignore_eos", .doc = "Goes on where the model ends", .in_file = kWhenSet}),
      field<&R::echo>({.name = "echo", .doc = "The prompt before the answer", .in_file = kWhenSet}),
      field<&R::stream>({.name = "stream", .doc = "As it comes", .in_file = kWhenSet}),
      field<&R::add_generation_prompt>(
          {.name = "add_generation_prompt", .doc = "What begins the answer", .in_file = kWhenSet}),
      field<&R::continue_final_message>({.name = "continue_final_message",
                                         .doc = "The last message is continued",
                                         .in_file = kWhenSet}),
      field<&R::top_logprobs>({.name = "top_logprobs",
                               .doc = "Of a chat: likely tokens beside each",
                               .min = 0,
                               .max = 20,
                               .in_file = kWhenSet}),
      field<&R::cache_salt>({.name = "cache_salt",
                             .doc = "Shares the prefix cache with the same alone",
                             .in_file = kWhenSet}),
      field<&R::stop>({.name = "stop", .doc = "Texts that end an answer", .in_file = kWhenSet}),
      field<&R::logprobs>({.name = "logprobs", .doc = "Log-probabilities", .in_file = kWhenSet}),
      field<&R::stream_options>(
          {.name = "stream_options", .doc = "Usage at the end", .in_file = kWhenSet}),
      field<&R::logit_bias>(
          {.name = "logit_bias", .doc = "Added to tokens' logits", .in_file = kWhenSet}),
      field<&R::response_format>(
          {.name = "response_format", .doc = "Text alone", .in_file = kWhenSet}),
      field<&R::chat_template_kwargs>({.name = "chat_template_kwargs",
                                       .doc = "Variables of the template",
                                       .in_file = kWhenSet})};
};

}  // namespace tessera
