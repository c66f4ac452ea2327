#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/serving/batch_run.h"
#include "tessera/serving/log.h"
#include "tessera/serving/models_summary.h"
#include "tessera/serving/replay.h"
#include "tessera/serving/summary.h"
#include "tessera/serving/token_chain.h"

namespace tessera::serving {

/// What a model said to a request.
struct Output {
  std::vector<Token> prompt = {}, tokens = {};  ///< without a stop token
  std::string stop_reason = {};                 ///< as lm::StopReason; empty: it did not finish
  std::string text = {};                        ///< of `tokens`
  std::string salt = {};                        ///< of its content in the prefix cache
};

/// A run of a model, and what it said.
struct Ran {
  Log log = {};
  std::vector<Output> outputs;  ///< [requests]
};

/// A served run: all that happened, and what it comes to.
struct Served {
  Log log = {};
  Summary summary = {};
  std::optional<ModelsSummary> models = {};  ///< where there are several
  std::vector<Output> outputs = {};          ///< [requests] where a model ran
  /// What was served, and by what; null: nobody kept it. Schedulers and routers of scripts are
  /// named and not kept.
  std::shared_ptr<const Traffic> traffic = nullptr;
  std::shared_ptr<const Deployment> deployment = nullptr;
};

inline constexpr std::int64_t kMostTraceEvents = 5'000'000;

/// Chrome trace event format, as Perfetto loads it. A process per replica with its steps as slices
/// (micro-batches of a pipeline that overlap stand on tracks of their own) and counters of waiting
/// and running requests and used blocks; a process for the requests, each an asynchronous slice
/// with its phases queued, prefill and decode. Where no steps were recorded, the counters are the
/// samples of the whole deployment.
/// @param card of a run that can be replayed: then the file says so much that it can be too
/// @throws Error{out_of_range} beyond `max_events`, with what to do; Error{invalid_argument} for a
/// log without requests and steps; Error{io, not_found}.
void save_chrome_trace(const Log& log, const std::string& path,
                       std::int64_t max_events = kMostTraceEvents,
                       const ReplayCard* card = nullptr);

/// The same of a plan's batch: one track per stage, links that carry anything below.
/// @throws Error{invalid_argument} for a run without spans, Error{io}.
void save_chrome_trace(const BatchRun& run, const BatchPipeline& pipeline, const std::string& path);

/// One row a request: what `:requests()` gives. Absent times are empty fields.
void save_requests_csv(const Log& log, const std::string& path);

/// The state over a stretch of time.
struct SeriesRow {
  double time_s = 0;                                 ///< where the stretch begins
  double waiting = 0, running = 0, used_blocks = 0;  ///< means over it; samples hold to the next
  double throughput_tok_s = 0;  ///< output tokens, a sample's spread evenly since the one before
};

/// The samples in at most `num_rows` equal stretches of the run.
std::vector<SeriesRow> series_of(const Log& log, std::size_t num_rows = 500);

}  // namespace tessera::serving

template <>
struct tessera::Fields<tessera::serving::SeriesRow> {
  using R = tessera::serving::SeriesRow;
  static constexpr auto list = std::tuple{
      field<&R::time_s>({.name = "time_s", .doc = "Where the stretch begins", .unit = "s"}),
      field<&R::waiting>({.name = "waiting", .doc = "Requests, mean"}),
      field<&R::running>({.name = "running", .doc = "Requests, mean"}),
      field<&R::used_blocks>({.name = "used_blocks", .doc = "KV blocks of all replicas, mean"}),
      field<&R::throughput_tok_s>(
          {.name = "throughput_tok_s", .doc = "Output tokens per second", .unit = "tok/s"})};
};
