#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/serving/engine_options.h"
#include "tessera/serving/log_names.h"
#include "tessera/serving/replay.h"

/// What the events of a trace say for a replay, exactly. Times in ticks; -1: it did not happen.
namespace tessera::serving {

/// Of the engine that decodes.
struct DecoderLine {
  std::int64_t kv_blocks = 1, num_stages = 1;
  std::string name = {};
  std::vector<Ticks> retries = {};  ///< ReplicaRecord::retries
};

/// Of the run.
struct RunLine {
  EngineOptions engine = {};
  std::int64_t kv_blocks = 1, num_stages = 1, num_requests = 0;
  double kv_bytes_per_token = 0;
  std::string name = {}, cut_off = {};
  std::vector<Ticks> retries = {};  ///< ReplicaRecord::retries
  std::optional<DecoderLine> decoder = {};
};

/// Of a request.
struct RequestLine {
  std::int64_t prompt_tokens = 1, max_tokens = 1, output_tokens = 0;
  std::int64_t priority = 0, slo_class = 0;
  std::vector<std::int64_t> blocks = {};
  Ticks arrival = -1, taken = -1, first_scheduled = -1, first_token = -1, last_token = -1,
        cancelled = -1, transferred = 0;
  std::int64_t cached_tokens = 0, recomputed_tokens = 0, preemptions = 0;
  std::vector<Ticks> waited = {};
  Outcome outcome = Outcome::unfinished;
};

/// Of a step: lists of [request, tokens] and of [request, drafts, accepted, next] in one row.
struct StepLine {
  std::int64_t engine = 0;
  Ticks start = 0, duration = 0;
  std::vector<std::int64_t> scheduled = {}, drafts = {}, preempted = {}, finished = {};
  std::int64_t free_blocks = 0, waiting = 0, running = 0;
  Limit limit = Limit::none;
};

}  // namespace tessera::serving

namespace tessera {

namespace serving::detail {
constexpr FieldSpec whole(std::string_view name, std::string_view doc, double min = 0,
                          double max = kMaxExactInteger) {
  return {.name = name, .doc = doc, .min = min, .max = max};
}
constexpr FieldSpec tick(std::string_view name, std::string_view doc) {
  return {.name = name, .doc = doc, .unit = "ps", .min = -1, .max = 9e18};
}
}  // namespace serving::detail

template <>
struct Fields<serving::DecoderLine> {
  using L = serving::DecoderLine;
  static constexpr auto list = std::tuple{
      field<&L::kv_blocks>(serving::detail::whole("kv_blocks", "Of its KV cache", 1, 1e9)),
      field<&L::num_stages>(serving::detail::whole("num_stages", "Of its pipeline", 1, 4096)),
      field<&L::name>({.name = "name", .doc = "Of the engine"}),
      field<&L::retries>(serving::detail::tick("retries", "It decided as time had come to"))};
};

template <>
struct Fields<serving::RunLine> {
  using L = serving::RunLine;
  static constexpr auto list = std::tuple{
      field<&L::engine>({.name = "engine", .doc = "Its options"}),
      field<&L::kv_blocks>(serving::detail::whole("kv_blocks", "Of its KV cache", 1, 1e9)),
      field<&L::num_stages>(serving::detail::whole("num_stages", "Of its pipeline", 1, 4096)),
      field<&L::num_requests>(serving::detail::whole("num_requests", "Of the traffic", 0, 1e8)),
      field<&L::kv_bytes_per_token>(
          serving::detail::whole("kv_bytes_per_token", "Of keys and values", 0, 1e15)),
      field<&L::name>({.name = "name", .doc = "Of the engine"}),
      field<&L::cut_off>({.name = "cut_off", .doc = "Why the run stopped early"}),
      field<&L::retries>(serving::detail::tick("retries", "It decided as time had come to")),
      field<&L::decoder>({.name = "decoder",
                          .doc = "The engine that requests go to once read",
                          .in_file = InFile::when_set})};
};

template <>
struct Fields<serving::RequestLine> {
  using L = serving::RequestLine;
  static constexpr auto list = std::tuple{
      field<&L::prompt_tokens>(serving::detail::whole("prompt_tokens", "Of its prompt", 1, 1e8)),
      field<&L::max_tokens>(serving::detail::whole("max_tokens", "It may generate", 1, 1e8)),
      field<&L::output_tokens>(serving::detail::whole("output_tokens", "It generated", 0, 1e8)),
      field<&L::priority>(serving::detail::whole("priority", "Lower goes first", -1e9, 1e9)),
      field<&L::slo_class>(serving::detail::whole("slo_class", "Of its limits", 0, 1e6)),
      field<&L::blocks>(serving::detail::whole("blocks", "Equal ones hold the same tokens")),
      field<&L::arrival>(serving::detail::tick("arrival", "Sent by its client")),
      field<&L::taken>(serving::detail::tick("taken", "By the engine")),
      field<&L::first_scheduled>(serving::detail::tick("first_scheduled", "In a step")),
      field<&L::first_token>(serving::detail::tick("first_token", "It came")),
      field<&L::last_token>(serving::detail::tick("last_token", "It came")),
      field<&L::cancelled>(serving::detail::tick("cancelled", "Its client has left")),
      field<&L::transferred>({.name = "transferred",
                              .doc = "From engine to engine, took",
                              .unit = "ps",
                              .min = -1,
                              .max = 9e18,
                              .in_file = InFile::when_set}),
      field<&L::cached_tokens>(serving::detail::whole("cached_tokens", "Of its prompt, found")),
      field<&L::recomputed_tokens>(serving::detail::whole("recomputed_tokens", "Once more")),
      field<&L::preemptions>(serving::detail::whole("preemptions", "Of it", 0, 2e9)),
      field<&L::waited>(serving::detail::tick("waited", "By what stopped the queue")),
      field<&L::outcome>({.name = "outcome", .doc = "What became of it"})};
};

template <>
struct Fields<serving::StepLine> {
  using L = serving::StepLine;
  static constexpr auto list =
      std::tuple{field<&L::engine>({.name = "engine",
                                    .doc = "0; 1: the one that decodes",
                                    .min = 0,
                                    .max = 1,
                                    .in_file = InFile::when_set}),
                 field<&L::start>(serving::detail::tick("start", "Of the step")),
                 field<&L::duration>(serving::detail::tick("duration", "Of the step")),
                 field<&L::scheduled>(serving::detail::whole("scheduled", "Request, tokens, ...")),
                 field<&L::drafts>(serving::detail::whole(
                     "drafts", "Request, drafts, accepted, drafts for its next step", -1)),
                 field<&L::preempted>(serving::detail::whole("preempted", "Requests")),
                 field<&L::finished>(serving::detail::whole("finished", "Requests")),
                 field<&L::free_blocks>(serving::detail::whole("free_blocks", "After the step")),
                 field<&L::waiting>(serving::detail::whole("waiting", "After it was decided")),
                 field<&L::running>(serving::detail::whole("running", "After it was decided")),
                 field<&L::limit>({.name = "limit", .doc = "That stopped admission"})};
};

}  // namespace tessera

namespace tessera::serving {

RunLine line_of(const ReplayCard& card, const Log& log);
RequestLine line_of(const ReplayedRequest& request, const RequestRecord& record);
StepLine line_of(const StepRecord& step);

}  // namespace tessera::serving
