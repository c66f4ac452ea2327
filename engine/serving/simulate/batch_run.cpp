// A plan's batch, through the event loop of streams. Requests of the same micro-batches are one
// request of the run where they are alike; a unit's time is asked for by its place in the plan.

#include "tessera/serving/batch_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tessera/core/error.h"
#include "tessera/serving/simulate.h"

namespace tessera::serving {
namespace {

constexpr Ticks kUnknown = -1;

// Durations repeat for every micro-batch of the same size; above this many entries (256 MiB in all)
// they are asked for anew instead.
constexpr double kMaxCachedDurations = 32e6;

// One phase's micro-batches: at most two different sizes, the larger first.
struct Parts {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> first_request;

  Parts(std::int64_t batch_size, std::int64_t largest)
      : sizes(micro_batch_sizes(batch_size, largest)), first_request(sizes.size()) {
    std::exclusive_scan(sizes.begin(), sizes.end(), first_request.begin(), std::int64_t{0});
  }
  MicroBatch at(std::size_t m) const { return {first_request[m], sizes[m]}; }
  std::int64_t end(std::size_t m) const { return first_request[m] + sizes[m]; }
};

void check(const BatchPipeline& pipeline) {
  const auto at_least_one = [](std::int64_t value, const char* name) {
    if (value >= 1) return;
    throw Error(ErrorCode::out_of_range, fmt::format("{} is {}, at least 1 is needed", name, value),
                name);
  };
  if (pipeline.stage_names.empty()) {
    throw Error(ErrorCode::invalid_argument, "a pipeline needs at least one stage", "stage_names");
  }
  if (!pipeline.stage_s || !pipeline.link_s || !pipeline.return_s) {
    throw Error(ErrorCode::internal, "a pipeline without its functions of time", "pipeline");
  }
  at_least_one(pipeline.batch_size, "batch_size");
  at_least_one(pipeline.prefill_micro_batch_size, "prefill_micro_batch_size");
  at_least_one(pipeline.decode_micro_batch_size, "decode_micro_batch_size");
  at_least_one(pipeline.num_chunks, "num_chunks");
  at_least_one(pipeline.output_tokens, "output_tokens");
  if (pipeline.requests.empty()) return;
  if (pipeline.requests.size() != static_cast<std::size_t>(pipeline.batch_size)) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} requests in a batch of {}", pipeline.requests.size(), pipeline.batch_size),
        "requests");
  }
  for (const BatchRequest& request : pipeline.requests) {
    at_least_one(request.num_chunks, "num_chunks");
    at_least_one(request.output_tokens, "output_tokens");
    if (std::isfinite(request.arrival_s)) continue;
    throw Error(ErrorCode::internal, "a request that arrives at no finite time", "requests");
  }
}

// The most that a request has, or what all have.
std::int64_t most(const BatchPipeline& pipeline, std::int64_t alike,
                  std::int64_t BatchRequest::*member) {
  std::int64_t largest = pipeline.requests.empty() ? alike : 1;
  for (const BatchRequest& request : pipeline.requests) {
    largest = std::max(largest, request.*member);
  }
  return largest;
}

// In doubles, which hold products that would overflow integers.
void check_events(const BatchPipeline& pipeline, std::int64_t max_events) {
  const auto units = [&](std::int64_t largest, std::int64_t passes) {
    const std::int64_t rest = pipeline.batch_size % largest != 0 ? 1 : 0;
    return static_cast<double>(pipeline.batch_size / largest + rest) * static_cast<double>(passes);
  };
  const double num_tracks = 2 * static_cast<double>(pipeline.stage_names.size()) - 1;
  const double events =
      num_tracks *
      (units(pipeline.prefill_micro_batch_size,
             most(pipeline, pipeline.num_chunks, &BatchRequest::num_chunks)) +
       units(pipeline.decode_micro_batch_size,
             most(pipeline, pipeline.output_tokens, &BatchRequest::output_tokens) - 1));
  const auto limit = static_cast<double>(max_events);
  if (events > limit) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("the simulation needs {:.0f} events, the limit is {:.0f}; use fewer "
                            "output tokens, requests or chunks, or larger micro-batches",
                            events, limit),
                "max_events");
  }
  if (static_cast<double>(pipeline.batch_size) > limit) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("batch_size is {}, the limit is {:.0f}", pipeline.batch_size, limit),
                "batch_size");
  }
}

Ticks ticks_of(double seconds) { return static_cast<Ticks>(std::llround(seconds * 1e12)); }

/// The times of units, each stage and each link for itself.
class UnitCost final : public StepCost {
 public:
  UnitCost(const BatchPipeline& pipeline, const Parts& prefill, const Parts& decode)
      : pipeline_(pipeline), parts_{prefill, decode}, num_tracks_(2 * num_stages_of(pipeline) - 1) {
    if (!pipeline.requests.empty()) return;
    allocate(BatchPhase::prefill, pipeline.num_chunks);
    allocate(BatchPhase::decode, pipeline.output_tokens);
  }

  std::size_t num_stages() const override { return num_stages_of(pipeline_); }
  Ticks stage(const StepLoad& load, std::size_t k) const override { return at(load.unit, 2 * k); }
  Ticks hop(const StepLoad& load, std::size_t k) const override { return at(load.unit, 2 * k + 1); }
  bool has_queues() const override { return true; }
  std::optional<DecodeLine> decode_line(std::int64_t, std::int64_t) const override {
    return std::nullopt;
  }

  static BatchPhase phase_of(const StepUnit& unit) {
    return unit.decodes ? BatchPhase::decode : BatchPhase::prefill;
  }
  MicroBatch micro_batch(const StepUnit& unit) const {
    return parts_[unit.decodes ? 1 : 0].at(static_cast<std::size_t>(unit.micro_batch));
  }

 private:
  static std::size_t num_stages_of(const BatchPipeline& p) { return p.stage_names.size(); }

  void allocate(BatchPhase phase, std::int64_t num_indices) {
    const double entries = 2 * static_cast<double>(num_tracks_) * static_cast<double>(num_indices);
    if (entries > kMaxCachedDurations) return;
    cached_[static_cast<std::size_t>(phase)].assign(static_cast<std::size_t>(entries), kUnknown);
  }

  Ticks at(const StepUnit& unit, std::size_t track) const {
    const auto phase = static_cast<std::size_t>(unit.decodes ? 1 : 0);
    std::vector<Ticks>& cache = cached_[phase];
    if (cache.empty()) return ask(unit, track);
    const Parts& parts = parts_[phase];
    const bool smaller =
        parts.sizes[static_cast<std::size_t>(unit.micro_batch)] != parts.sizes.front();
    const std::size_t row = 2 * static_cast<std::size_t>(unit.index) + (smaller ? 1 : 0);
    Ticks& value = cache[row * num_tracks_ + track];
    if (value == kUnknown) value = ask(unit, track);
    return value;
  }

  Ticks ask(const StepUnit& unit, std::size_t track) const {
    const auto& function = track % 2 == 0 ? pipeline_.stage_s : pipeline_.link_s;
    const MicroBatch part = micro_batch(unit);
    const double seconds = function(track / 2, phase_of(unit), part, unit.index);
    const bool fits = seconds <= kLongestRun_s;
    if (std::isfinite(seconds) && seconds >= 0) return fits ? ticks_of(seconds) : kNever;
    throw Error(ErrorCode::internal,
                fmt::format("the time of {} {} in {} is {} s for a micro-batch of {}, {} {}",
                            track % 2 == 0 ? "stage" : "the link after stage", track / 2,
                            unit.decodes ? "decode" : "prefill", seconds, part.size,
                            unit.decodes ? "token" : "chunk", unit.index),
                "pipeline");
  }

  const BatchPipeline& pipeline_;
  const Parts parts_[2];
  std::size_t num_tracks_;
  mutable std::vector<Ticks> cached_[2];
};

Ticks return_ticks(const BatchPipeline& pipeline, std::int64_t size) {
  const double seconds = pipeline.return_s(size);
  if (std::isfinite(seconds) && seconds >= 0) return to_ticks(seconds, "return_s");
  throw Error(ErrorCode::internal, fmt::format("the time to return tokens is {} s", seconds),
              "pipeline");
}

class BatchSimulation {
 public:
  BatchSimulation(const BatchPipeline& pipeline, bool record_spans)
      : pipeline_(pipeline),
        record_spans_(record_spans),
        prefill_(pipeline.batch_size, pipeline.prefill_micro_batch_size),
        decode_(pipeline.batch_size, pipeline.decode_micro_batch_size),
        cost_(std::make_shared<UnitCost>(pipeline, prefill_, decode_)),
        first_token_(prefill_.sizes.size(), 0),
        first_round_(decode_.sizes.size(), 0),
        last_token_(decode_.sizes.size(), 0) {}

  BatchRun run() {
    make_traffic();
    SimulationOptions options;
    options.record_passes = record_spans_;
    options.on_step = [this](const EngineCore&, const Work& work, const StepTimes& times,
                             const std::vector<Pass>& passes) { note(work.batch, times, passes); };
    log_ = simulate(deployment(), traffic_, std::move(options));
    if (!log_.cut_off.empty()) throw Error(ErrorCode::out_of_range, log_.cut_off, "pipeline");
    return summary();
  }

 private:
  bool alike() const { return pipeline_.requests.empty(); }

  // Where a micro-batch of either kind begins, a request of the run begins.
  void make_traffic() {
    if (alike()) {
      starts_ = prefill_.first_request;
      starts_.insert(starts_.end(), decode_.first_request.begin(), decode_.first_request.end());
      std::sort(starts_.begin(), starts_.end());
      starts_.erase(std::unique(starts_.begin(), starts_.end()), starts_.end());
    } else {
      starts_.resize(pipeline_.requests.size());
      std::iota(starts_.begin(), starts_.end(), std::int64_t{0});
    }
    for (const std::int64_t start : starts_) {
      Request r;
      r.prompt_tokens = pipeline_.num_chunks;
      r.output_tokens = pipeline_.output_tokens;
      if (!alike()) {
        const BatchRequest& given = pipeline_.requests[static_cast<std::size_t>(start)];
        r.arrival = to_ticks(std::max(0.0, given.arrival_s), "requests.arrival_s");
        r.prompt_tokens = given.num_chunks;
        r.output_tokens = given.output_tokens;
      }
      place_.push_back(std::ssize(place_));
      traffic_.requests.push_back(r);
    }
    std::stable_sort(place_.begin(), place_.end(), [&](std::int64_t a, std::int64_t b) {
      return traffic_.requests[static_cast<std::size_t>(a)].arrival <
             traffic_.requests[static_cast<std::size_t>(b)].arrival;
    });
    std::vector<Request> sorted;
    for (const std::int64_t place : place_) {
      sorted.push_back(traffic_.requests[static_cast<std::size_t>(place)]);
    }
    traffic_.requests = std::move(sorted);
  }

  std::vector<std::int64_t> counts(const Parts& parts) const {
    std::vector<std::int64_t> counts(parts.sizes.size(), 0);
    std::size_t m = 0;
    for (const std::int64_t start : starts_) {
      while (parts.end(m) <= start) ++m;
      ++counts[m];
    }
    return counts;
  }

  Deployment deployment() const {
    const std::int64_t tokens =
        most(pipeline_, pipeline_.num_chunks, &BatchRequest::num_chunks) +
        most(pipeline_, pipeline_.output_tokens, &BatchRequest::output_tokens);
    Replica replica;
    replica.name = "pipeline";
    replica.cost = cost_;
    replica.engine.scheduler = "micro_batches";
    replica.engine.max_num_seqs = replica.kv_blocks = std::ssize(starts_);
    replica.engine.block_size = tokens;  // nobody waits for memory
    replica.engine.enable_prefix_caching = false;
    replica.engine.chunk_tokens = 1;
    MicroBatchPlan plan{counts(prefill_), counts(decode_), place_, [this](std::int64_t q) {
                          return return_ticks(pipeline_,
                                              decode_.sizes[static_cast<std::size_t>(q)]);
                        }};
    replica.make_scheduler = [plan](const EngineOptions& options, const BlockManager::Options& kv) {
      return make_planned_batch(options, kv, plan);
    };
    Deployment deployment;
    deployment.replicas = {replica};
    return deployment;
  }

  void note(const Batch& batch, const StepTimes& times, const std::vector<Pass>& passes) {
    const StepUnit& unit = batch.load.unit;
    const auto m = static_cast<std::size_t>(unit.micro_batch);
    if (!unit.decodes) {
      first_token_[m] = std::max(first_token_[m], times.end);
    } else {
      if (unit.index == 1) first_round_[m] = times.end;
      last_token_[m] = times.end;
    }
    if (pipeline_.host_s) {
      host_s_ += pipeline_.host_s(UnitCost::phase_of(unit), cost_->micro_batch(unit), unit.index);
    }
    if (!record_spans_) return;
    for (std::size_t track = 0; track < passes.size(); ++track) {
      const Pass& pass = passes[track];
      if (pass.duration == 0) continue;
      spans_.push_back({track, UnitCost::phase_of(unit), unit.micro_batch, unit.index,
                        to_seconds(pass.start), to_seconds(pass.duration), 0});
    }
  }

  BatchRun summary();
  void settle_decodes();
  double mean_period() const;
  void add_alike(BatchRun& run) const;
  void add_requests(BatchRun& run);

  const BatchPipeline& pipeline_;
  const bool record_spans_;
  const Parts prefill_, decode_;
  std::shared_ptr<UnitCost> cost_;
  std::vector<std::int64_t> starts_;  ///< first request of the batch, of each of the run
  std::vector<std::int64_t> place_;   ///< among these, of the traffic's
  Traffic traffic_;
  Log log_;
  std::vector<Ticks> first_token_;               ///< by prefill micro-batch
  std::vector<Ticks> first_round_, last_token_;  ///< by decode micro-batch, as below
  std::vector<Ticks> ready_;
  std::vector<std::int64_t> num_tokens_;
  double host_s_ = 0;
  std::vector<BatchSpan> spans_;
};

// Each waits for the prompts' micro-batches that its requests were in.
void BatchSimulation::settle_decodes() {
  std::size_t m = 0;
  for (std::size_t q = 0; q < decode_.sizes.size(); ++q) {
    while (prefill_.end(m) <= decode_.first_request[q]) ++m;
    ready_.push_back(0);
    for (std::size_t k = m; k < prefill_.sizes.size() && prefill_.first_request[k] < decode_.end(q);
         ++k) {
      ready_[q] = std::max(ready_[q], first_token_[k]);
    }
    last_token_[q] = std::max(last_token_[q], ready_[q]);
    num_tokens_.push_back(alike() ? pipeline_.output_tokens : 1);
    for (std::int64_t r = decode_.first_request[q]; !alike() && r < decode_.end(q); ++r) {
      num_tokens_[q] =
          std::max(num_tokens_[q], pipeline_.requests[static_cast<std::size_t>(r)].output_tokens);
    }
  }
}

// From the first decode round to the last; from the end of prefill where there is only one.
double BatchSimulation::mean_period() const {
  double sum = 0, counted = 0;
  for (std::size_t q = 0; q < last_token_.size(); ++q) {
    const std::int64_t rounds = num_tokens_[q] - 1;
    if (rounds == 0) continue;
    ++counted;
    sum += rounds == 1
               ? to_seconds(last_token_[q] - ready_[q])
               : to_seconds(last_token_[q] - first_round_[q]) / static_cast<double>(rounds - 1);
  }
  return counted > 0 ? sum / counted : 0;
}

void BatchSimulation::add_alike(BatchRun& run) const {
  std::size_t m = 0, q = 0;
  double ttft = 0, tpot = 0;
  for (std::size_t i = 0; i < starts_.size(); ++i) {
    while (prefill_.end(m) <= starts_[i]) ++m;
    while (decode_.end(q) <= starts_[i]) ++q;
    const std::int64_t end = i + 1 < starts_.size() ? starts_[i + 1] : pipeline_.batch_size;
    const auto count = static_cast<double>(end - starts_[i]);
    ttft += count * to_seconds(first_token_[m]);
    run.ttft_max_s = std::max(run.ttft_max_s, to_seconds(first_token_[m]));
    tpot += count * to_seconds(last_token_[q] - first_token_[m]);
  }
  const auto requests = static_cast<double>(pipeline_.batch_size);
  run.ttft_s = ttft / requests;
  if (pipeline_.output_tokens > 1) {
    run.tpot_s = tpot / requests / static_cast<double>(pipeline_.output_tokens - 1);
  }
  if (run.total_s > 0) {
    run.throughput_tok_s = requests * static_cast<double>(pipeline_.output_tokens) / run.total_s;
  }
}

void BatchSimulation::add_requests(BatchRun& run) {
  std::vector<Ticks> last(pipeline_.requests.size());
  for (std::size_t i = 0; i < place_.size(); ++i) {
    last[static_cast<std::size_t>(place_[i])] = log_.requests[i].last_token;
  }
  double ttft = 0, tpot = 0, tokens = 0, counted = 0;
  std::size_t m = 0;
  for (std::size_t r = 0; r < pipeline_.requests.size(); ++r) {
    while (prefill_.end(m) <= static_cast<std::int64_t>(r)) ++m;
    const BatchRequest& request = pipeline_.requests[r];
    const double first = to_seconds(first_token_[m]);
    const bool one = request.output_tokens == 1;
    run.requests.push_back({first, one ? first : to_seconds(last[r])});
    ttft += first - request.arrival_s;
    run.ttft_max_s = std::max(run.ttft_max_s, first - request.arrival_s);
    tokens += static_cast<double>(request.output_tokens);
    if (one) continue;
    tpot += (run.requests[r].last_token_s - first) / static_cast<double>(request.output_tokens - 1);
    ++counted;
  }
  run.ttft_s = ttft / static_cast<double>(run.requests.size());
  if (counted > 0) run.tpot_s = tpot / counted;
  if (run.total_s > 0) run.throughput_tok_s = tokens / run.total_s;
}

BatchRun BatchSimulation::summary() {
  settle_decodes();
  BatchRun run;
  const Ticks prefill = *std::max_element(first_token_.begin(), first_token_.end());
  const Ticks total = std::max(prefill, *std::max_element(last_token_.begin(), last_token_.end()));
  run.total_s = to_seconds(total);
  run.prefill_s = to_seconds(prefill);
  run.decode_s = to_seconds(total - prefill);
  run.decode_round_s = mean_period();
  run.host_s = host_s_;
  if (alike()) {
    add_alike(run);
  } else {
    add_requests(run);
  }
  for (const Ticks busy : log_.replicas.front().stage_busy) {
    const double busy_s = to_seconds(busy);
    run.stages.push_back({busy_s, run.total_s > 0 ? std::max(0.0, 1 - busy_s / run.total_s) : 0});
  }
  run.spans = std::move(spans_);
  std::stable_sort(run.spans.begin(), run.spans.end(), [](const BatchSpan& a, const BatchSpan& b) {
    return a.start_s != b.start_s ? a.start_s < b.start_s : a.track < b.track;
  });
  return run;
}

}  // namespace

BatchRun simulate_batch(const BatchPipeline& pipeline, bool record_spans, std::int64_t max_events) {
  check(pipeline);
  check_events(pipeline, max_events);
  return BatchSimulation(pipeline, record_spans).run();
}

}  // namespace tessera::serving
