#include "tessera/solver/plan/batch_traffic.h"

#include <algorithm>
#include <numeric>

#include "tessera/core/error.h"
#include "tessera/core/rng.h"

namespace tessera::solver {
namespace {

/// Hands out the batches of a trace.
class Draw {
 public:
  Draw(const RequestTrace& trace, const BatchTrafficOptions& options, std::int64_t batch_size)
      : trace_(trace), rng_(options.seed), batch_size_(static_cast<std::size_t>(batch_size)) {
    in_order_ = options.arrivals == BatchArrivals::trace;
    order_.resize(trace.requests.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }

  /// Without arrivals, requests at random: every one once before any comes twice. With them, the
  /// next ones of the trace; fewer, or none, at its end.
  std::vector<TracedRequest> next() {
    std::vector<TracedRequest> batch;
    while (batch.size() < batch_size_) {
      if (next_ == order_.size()) {
        if (in_order_) break;
        next_ = 0;
      }
      if (!in_order_) {
        const auto last = static_cast<std::int64_t>(order_.size()) - 1;
        const auto other = rng_.integer(static_cast<std::int64_t>(next_), last);
        std::swap(order_[next_], order_[static_cast<std::size_t>(other)]);
      }
      batch.push_back(trace_.requests[order_[next_++]]);
      if (!in_order_) batch.back().arrival_s = 0;
    }
    return batch;
  }

 private:
  const RequestTrace& trace_;
  Rng rng_;
  std::size_t batch_size_, next_ = 0;
  bool in_order_ = false;
  std::vector<std::size_t> order_;
};

/// The run of one batch that starts at `start_s`, added to that of all before.
void append(BatchTraffic& all, const std::vector<TracedRequest>& batch,
            const serving::BatchRun& run, double start_s) {
  for (std::size_t r = 0; r < batch.size(); ++r) {
    BatchedRequest served{batch[r].prompt_tokens, batch[r].output_tokens, batch[r].arrival_s};
    const double first = run.requests[r].first_token_s, last = run.requests[r].last_token_s;
    served.ttft_s = start_s + first - served.arrival_s;
    served.e2e_s = start_s + last - served.arrival_s;
    if (served.output_tokens > 1) {
      served.tpot_s = (last - first) / static_cast<double>(served.output_tokens - 1);
    }
    all.requests.push_back(served);
  }
  all.run.prefill_s += run.prefill_s;
  all.run.decode_s += run.decode_s;
  all.run.decode_round_s += run.decode_round_s;
  all.run.host_s += run.host_s;
  all.run.stages.resize(run.stages.size());
  for (std::size_t k = 0; k < run.stages.size(); ++k) {
    all.run.stages[k].busy_s += run.stages[k].busy_s;
  }
  ++all.num_batches;
}

void summarise(BatchTraffic& all, double total_s) {
  serving::BatchRun& run = all.run;
  run.total_s = total_s;
  run.decode_round_s /= static_cast<double>(all.num_batches);
  double tokens = 0, tpot = 0, counted = 0;
  for (const BatchedRequest& request : all.requests) {
    run.ttft_s += request.ttft_s / static_cast<double>(all.requests.size());
    run.ttft_max_s = std::max(run.ttft_max_s, request.ttft_s);
    tokens += static_cast<double>(request.output_tokens);
    if (request.output_tokens == 1) continue;
    tpot += request.tpot_s;
    ++counted;
  }
  if (counted > 0) run.tpot_s = tpot / counted;
  if (total_s > 0) run.throughput_tok_s = tokens / total_s;
  for (serving::StageUse& stage : run.stages) {
    stage.idle_ratio = total_s > 0 ? std::max(0.0, 1 - stage.busy_s / total_s) : 0;
  }
}

void check(const Workload& workload, const BatchTrafficOptions& options) {
  if (workload.trace == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "the plan's workload has one length for all requests; give it lengths = "
                "\"trace.csv\" to simulate a distribution",
                "plan.problem.workload");
  }
  if (options.arrivals == BatchArrivals::trace && !workload.trace->has_arrivals) {
    throw Error(ErrorCode::invalid_argument,
                "the trace does not say when requests arrive; its file needs a column such as "
                "timestamp or arrival_s",
                "arrivals");
  }
}

}  // namespace

bool has_trace(const PlanSummary& plan) {
  const BatchProblem* batch = plan.problem.batch();
  return batch != nullptr && batch->workload.trace != nullptr;
}

BatchTraffic simulate_batches(const PipelinePlan& plan, const BatchTrafficOptions& options,
                              bool record_spans) {
  const PlanPipeline pipelines(plan);
  if (pipelines.problem().batch() == nullptr) {
    throw Error(ErrorCode::unsupported, "an abstract instance has requests of one length only",
                "plan.problem");
  }
  const Workload& workload = pipelines.problem().batch()->workload;
  check(workload, options);
  BatchTraffic all;
  all.expected = serving::simulate_batch(pipelines.of_means(), false);
  Draw draw(*workload.trace, options, workload.batch_size);
  double now = 0;
  for (std::int64_t b = 0; b < options.num_batches; ++b) {
    std::vector<TracedRequest> batch = draw.next();
    if (batch.empty()) break;
    if (options.arrivals == BatchArrivals::all_at_once) {
      for (TracedRequest& request : batch) request.arrival_s = now;
    }
    const double start = std::max(now, batch.front().arrival_s);
    std::vector<TracedRequest> from_start = batch;
    for (TracedRequest& request : from_start) request.arrival_s -= start;
    const serving::BatchPipeline pipeline = pipelines.of_batch(from_start, options.batching);
    serving::BatchRun run = serving::simulate_batch(pipeline, record_spans && b == 0);
    append(all, batch, run, start);
    now = start + run.total_s;
    if (b > 0) continue;
    all.run.spans = std::move(run.spans);
    all.first_pipeline = pipeline;
  }
  summarise(all, now);
  return all;
}

}  // namespace tessera::solver
