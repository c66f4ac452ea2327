#include "tessera/run/run_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace tessera::run {
namespace {

double seconds(Nanoseconds ns) { return static_cast<double>(ns) / kSecond; }

/// The rounds of one decode micro-batch of an engine.
struct Rounds {
  Nanoseconds last_end = 0, sum = 0;
  std::int64_t last_index = 0, count = 0;
};

// Mean over decode micro-batches of the time from the end of a round to the end of the next.
double decode_round(const Executed& executed) {
  double sum = 0;
  std::int64_t counted = 0;
  for (std::size_t e = 0; e < executed.spans.size(); ++e) {
    std::map<std::int64_t, Rounds> by_micro_batch;
    const std::vector<StageSpan>& spans = executed.spans[e];
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const StageSpan& span = spans[i];
      const bool is_last = i + 1 == spans.size() || spans[i + 1].step != span.step;
      if (!is_last || !span.unit.decodes) continue;
      Rounds& rounds = by_micro_batch[span.unit.micro_batch];
      if (span.unit.index == rounds.last_index + 1 && rounds.last_index > 0) {
        rounds.sum += span.end - rounds.last_end;
        ++rounds.count;
      }
      rounds.last_end = span.end;
      rounds.last_index = span.unit.index;
    }
    for (const auto& [number, rounds] : by_micro_batch) {
      if (rounds.count == 0) continue;
      sum += seconds(rounds.sum) / static_cast<double>(rounds.count);
      ++counted;
    }
  }
  return counted > 0 ? sum / static_cast<double>(counted) : 0;
}

std::vector<std::size_t> engines_of(const Executed& executed, std::optional<std::size_t> engine) {
  if (engine) return {*engine};
  std::vector<std::size_t> all(executed.spans.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

// Not another rank of one.
bool is_stage(const StageReport& report) { return report.tensor_rank == 0 && !report.attends; }

// Stages that an engine has, or had before some were lost.
std::size_t num_tracks(const Executed& executed, std::size_t engine) {
  std::size_t stages = 0;
  for (const StageReport& stage : executed.stages) {
    const bool is_own = stage.engine == static_cast<std::int64_t>(engine);
    if (is_own && is_stage(stage)) ++stages;
  }
  for (const StageSpan& span : executed.spans.at(engine)) stages = std::max(stages, span.stage + 1);
  return stages;
}

}  // namespace

serving::BatchRun batch_run_of(const Executed& executed) {
  serving::BatchRun run;
  run.total_s = executed.total_s;
  double tokens = 0, ttft = 0, tpot = 0;
  std::int64_t counted = 0, many = 0;
  for (const auto& answer : executed.answers.done) {
    if (!answer || answer->first_token == serving::kNever) continue;
    const bool stopped = answer->stop_reason == lm::StopReason::stop_token;
    const auto generated = static_cast<double>(answer->tokens.size()) + (stopped ? 1 : 0);
    const double first = serving::to_seconds(answer->first_token);
    const double last = serving::to_seconds(answer->last_token);
    run.requests.push_back({first, last});
    ++counted;
    tokens += generated;
    ttft += first;
    run.ttft_max_s = std::max(run.ttft_max_s, first);
    run.prefill_s = std::max(run.prefill_s, first);
    if (generated < 2) continue;
    tpot += (last - first) / (generated - 1);
    ++many;
  }
  run.decode_s = std::max(0.0, run.total_s - run.prefill_s);
  if (counted > 0) run.ttft_s = ttft / static_cast<double>(counted);
  if (many > 0) run.tpot_s = tpot / static_cast<double>(many);
  if (run.total_s > 0) run.throughput_tok_s = tokens / run.total_s;
  run.decode_round_s = decode_round(executed);
  for (const StageReport& stage : executed.stages) {
    if (!stage.attends) run.stages.push_back({stage.busy_s, stage.idle_ratio});
  }
  return run;
}

serving::BatchPipeline tracks_of(const Executed& executed, std::optional<std::size_t> engine) {
  serving::BatchPipeline pipeline;
  for (const std::size_t e : engines_of(executed, engine)) {
    const std::string replica =
        engine || executed.spans.size() == 1 ? std::string() : fmt::format("replica {}, ", e + 1);
    const auto add = [&](std::size_t stage, const std::string& what) {
      pipeline.stage_names.push_back(fmt::format("{}stage {}{}", replica, stage, what));
    };
    std::size_t stages = 0;
    for (const StageReport& stage : executed.stages) {
      if (stage.engine != static_cast<std::int64_t>(e) || !is_stage(stage)) continue;
      add(stages++, fmt::format(" (layers {}-{})", stage.first_layer,
                                stage.first_layer + stage.num_layers - 1));
    }
    while (stages < num_tracks(executed, e)) add(stages++, ", which was lost");
  }
  return pipeline;
}

serving::BatchRun spans_of(const Executed& executed, std::optional<std::size_t> engine) {
  serving::BatchRun run;
  std::size_t first = 0;
  for (const std::size_t e : engines_of(executed, engine)) {
    for (const StageSpan& span : executed.spans.at(e)) {
      run.spans.push_back(
          {2 * (first + span.stage),
           span.unit.decodes ? serving::BatchPhase::decode : serving::BatchPhase::prefill,
           span.unit.micro_batch, span.unit.index, seconds(span.start),
           seconds(span.end - span.start), span.num_requests});
    }
    first += num_tracks(executed, e);
  }
  std::stable_sort(run.spans.begin(), run.spans.end(), [](const auto& a, const auto& b) {
    return a.start_s != b.start_s ? a.start_s < b.start_s : a.track < b.track;
  });
  return run;
}

}  // namespace tessera::run
