#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tessera/core/json_fwd.h"
#include "tessera/core/record.h"
#include "tessera/core/requests.h"

namespace tessera {

/// What is served: one batch of requests. Lengths are per request.
struct Workload {
  std::string name;
  double prompt_tokens = 512;  ///< mean over requests; >= 1
  double output_tokens =
      100;  ///< mean over requests; >= 1. The first output token comes out of prefill
  std::int64_t batch_size = 32;  ///< requests, >= 1
  std::int64_t max_prompt_tokens =
      512;  ///< longest prompt: prompts are padded to it, and memory is reserved for it
  std::int64_t max_output_tokens = 100;  ///< longest output: memory is reserved for it
  std::optional<std::int64_t>
      chunk_tokens;  ///< chunked prefill: tokens of a prompt processed per pass
  std::string source;
  /// Requests that lengths vary over: the means and the longest above are theirs. nullptr: all
  /// requests are alike. Planners use the means, the event simulation draws from the requests.
  std::shared_ptr<const RequestTrace> trace;

  /// Takes over means and maxima of `requests`.
  void set_trace(std::shared_ptr<const RequestTrace> requests);
  /// Tokens in a request's KV cache while it decodes, mean over the steps of all requests.
  double mean_context_tokens() const;
  /// Chunks that a prompt is cut into (kappa), >= 1; 1 without chunk_tokens.
  std::int64_t num_chunks() const;
  /// Tokens in chunk `index` (0-based), the last one being what is left over.
  std::int64_t tokens_in_chunk(std::int64_t index) const;

  std::optional<std::int64_t> num_requests() const;  ///< that lengths vary over
  std::optional<std::int64_t> num_left_out() const;  ///< of the trace's file
  bool has_arrivals() const;                         ///< whether it is known when requests came
};

/// A trace among the fields of a workload is the text of its requests.
struct TraceText {
  static Json write(const std::shared_ptr<const RequestTrace>& trace);
  static std::shared_ptr<const RequestTrace> read(const Json& json, const std::string& path,
                                                  const FieldSpec& spec);
};

template <>
struct Fields<Workload> {
  static constexpr double kMaxTokens = 1e8;
  static constexpr auto list = std::tuple{
      field<&Workload::name>(
          {.name = "name", .doc = "Name to refer to it by", .in_file = InFile::when_set}),
      field<&Workload::prompt_tokens>(
          {.name = "prompt_tokens",
           .doc = "Prompt length per request, the mean where lengths vary",
           .unit = "tokens",
           .min = 1,
           .max = kMaxTokens,
           .as_option = AsOption::defaulted}),
      field<&Workload::output_tokens>(
          {.name = "output_tokens",
           .doc = "Generated tokens per request, the mean where lengths vary",
           .unit = "tokens",
           .min = 1,
           .max = kMaxTokens,
           .as_option = AsOption::defaulted}),
      field<&Workload::batch_size>({.name = "batch_size",
                                    .doc = "Requests served together",
                                    .unit = "requests",
                                    .min = 1,
                                    .max = 1e6,
                                    .as_option = AsOption::defaulted}),
      field<&Workload::max_prompt_tokens>(
          {.name = "max_prompt_tokens",
           .doc = "Longest prompt, for which memory is reserved; default: the mean, or the longest "
                  "of lengths, whose longer requests are left out",
           .unit = "tokens",
           .min = 1,
           .max = kMaxTokens,
           .in_file = InFile::defaulted}),
      field<&Workload::max_output_tokens>(
          {.name = "max_output_tokens",
           .doc = "Longest output, for which memory is reserved; default: as for prompts",
           .unit = "tokens",
           .min = 1,
           .max = kMaxTokens,
           .in_file = InFile::defaulted}),
      field<&Workload::chunk_tokens>({.name = "chunk_tokens",
                                      .doc = "Chunked prefill: tokens of a prompt per pass",
                                      .unit = "tokens",
                                      .min = 1,
                                      .max = kMaxTokens,
                                      .in_file = InFile::when_set}),
      field<&Workload::num_chunks>({.name = "num_chunks", .doc = "Prefill passes per prompt"}),
      field<&Workload::mean_context_tokens>(
          {.name = "context_tokens",
           .doc = "Tokens in a request's KV cache, mean over decode steps",
           .unit = "tokens"}),
      field<&Workload::num_requests>(
          {.name = "num_requests", .doc = "Requests that the lengths vary over"}),
      field<&Workload::num_left_out>(
          {.name = "num_left_out", .doc = "Requests of the file beyond the longest allowed"}),
      field<&Workload::has_arrivals>(
          {.name = "has_arrivals", .doc = "Whether it is known when the requests came"}),
      field<&Workload::source>(
          {.name = "source", .doc = "Where the figures come from", .in_file = InFile::when_set}),
      field<&Workload::trace, TraceText>({.name = "requests",
                                          .doc = "Lengths and arrivals, a request each",
                                          .in_file = InFile::when_set,
                                          .as_option = AsOption::never,
                                          .in_scripts = false})};
  /// The longest may not be below the mean, nor say otherwise than the trace.
  static void check(const Workload& workload, const FieldPath& path);
};

/// The longest lengths where nobody said them: the means, in whole tokens.
std::int64_t whole_tokens(double mean);

Json to_json(const Workload& workload);
Workload workload_from_json(const Json& json, const std::string& path);

}  // namespace tessera
