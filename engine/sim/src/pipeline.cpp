#include "tessera/sim/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>

#include "tessera/core/error.h"

namespace tessera::sim {
namespace {

constexpr double kUnknown = -1;

// Durations repeat for every micro-batch of the same size; above this many entries (256 MiB of
// doubles in all) they are asked for anew instead.
constexpr double kMaxCachedDurations = 32e6;

// One phase's micro-batches: at most two different sizes, the larger first.
struct MicroBatches {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> first_request;

  MicroBatches(std::int64_t batch_size, std::int64_t largest)
      : sizes(micro_batch_sizes(batch_size, largest)), first_request(sizes.size()) {
    std::exclusive_scan(sizes.begin(), sizes.end(), first_request.begin(), std::int64_t{0});
  }
  std::size_t size_class(std::size_t micro_batch) const {
    return sizes[micro_batch] == sizes.front() ? 0 : 1;
  }
  MicroBatch at(std::size_t micro_batch) const {
    return {first_request[micro_batch], sizes[micro_batch]};
  }
};

// Arrival of a unit at a track. Ordered as the queues are: time, prefill before decode, then the
// micro-batch, then chunk or round.
struct Arrival {
  double time = 0;
  Phase phase = Phase::prefill;
  std::uint32_t micro_batch = 0;
  std::uint32_t index = 0;
  std::uint32_t track = 0;
  double seconds = 0;  ///< that it will take there

  bool operator>(const Arrival& other) const {
    if (time != other.time) return time > other.time;
    if (phase != other.phase) return phase > other.phase;
    if (micro_batch != other.micro_batch) return micro_batch > other.micro_batch;
    if (index != other.index) return index > other.index;
    return track > other.track;
  }
};

void check(const Pipeline& pipeline) {
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
  for (const Request& request : pipeline.requests) {
    at_least_one(request.num_chunks, "num_chunks");
    at_least_one(request.output_tokens, "output_tokens");
    if (std::isfinite(request.arrival_s)) continue;
    throw Error(ErrorCode::internal, "a request that arrives at no finite time", "requests");
  }
}

// The most that a request has, or what all have.
std::int64_t most(const Pipeline& pipeline, std::int64_t alike, std::int64_t Request::*member) {
  std::int64_t largest = pipeline.requests.empty() ? alike : 1;
  for (const Request& request : pipeline.requests) largest = std::max(largest, request.*member);
  return largest;
}

std::int64_t num_micro_batches(std::int64_t batch_size, std::int64_t largest) {
  return batch_size / largest + (batch_size % largest != 0 ? 1 : 0);
}

// In doubles, which hold products that would overflow integers.
void check_events(const Pipeline& pipeline, std::int64_t max_events) {
  const auto units = [&](std::int64_t largest, std::int64_t passes) {
    return static_cast<double>(num_micro_batches(pipeline.batch_size, largest)) *
           static_cast<double>(passes);
  };
  const double num_tracks = 2 * static_cast<double>(pipeline.stage_names.size()) - 1;
  const double events =
      num_tracks * (units(pipeline.prefill_micro_batch_size,
                          most(pipeline, pipeline.num_chunks, &Request::num_chunks)) +
                    units(pipeline.decode_micro_batch_size,
                          most(pipeline, pipeline.output_tokens, &Request::output_tokens) - 1));
  // Micro-batches, chunks and rounds are numbered in 32 bits; each is at least one event.
  const double limit = std::min(static_cast<double>(max_events),
                                static_cast<double>(std::numeric_limits<std::uint32_t>::max()));
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

class Simulation {
 public:
  Simulation(const Pipeline& pipeline, bool record_spans)
      : pipeline_(pipeline),
        record_spans_(record_spans),
        num_tracks_(2 * pipeline.stage_names.size() - 1),
        batches_{{pipeline.batch_size, pipeline.prefill_micro_batch_size},
                 {pipeline.batch_size, pipeline.decode_micro_batch_size}},
        free_at_(num_tracks_, 0),
        busy_(num_tracks_, 0),
        first_token_(prefill().sizes.size(), 0),
        waiting_for_(decode().sizes.size(), 0),
        decode_ready_(decode().sizes.size(), 0),
        first_round_(decode().sizes.size(), 0),
        last_token_(decode().sizes.size(), 0) {
    if (pipeline.requests.empty()) {
      allocate_cache(Phase::prefill, pipeline.num_chunks);
      allocate_cache(Phase::decode, pipeline.output_tokens);
      num_chunks_.assign(prefill().sizes.size(), pipeline.num_chunks);
      num_tokens_.assign(decode().sizes.size(), pipeline.output_tokens);
      ready_.assign(prefill().sizes.size(), 0);
    } else {
      take_requests();
    }
    link_phases();
  }

  Run run() {
    for (std::size_t m = 0; m < prefill().sizes.size(); ++m) {
      for (std::int64_t k = 0; k < num_chunks_[m]; ++k) {
        advance({ready_[m], Phase::prefill, static_cast<std::uint32_t>(m),
                 static_cast<std::uint32_t>(k)});
      }
    }
    while (!queue_.empty()) {
      const Arrival arrival = queue_.top();
      queue_.pop();
      serve(arrival);
    }
    return summary();
  }

 private:
  const MicroBatches& prefill() const { return batches_[0]; }
  const MicroBatches& decode() const { return batches_[1]; }
  const MicroBatches& of(Phase phase) const { return batches_[static_cast<std::size_t>(phase)]; }

  void allocate_cache(Phase phase, std::int64_t num_indices) {
    const double entries = 2 * static_cast<double>(num_tracks_) * static_cast<double>(num_indices);
    if (entries > kMaxCachedDurations) return;
    cached_[static_cast<std::size_t>(phase)].assign(static_cast<std::size_t>(entries), kUnknown);
  }

  // A micro-batch waits for the last of its requests, and takes as long as the longest.
  void take_requests() {
    const std::vector<Request>& requests = pipeline_.requests;
    times_.resize(requests.size());
    for (std::size_t m = 0; m < prefill().sizes.size(); ++m) {
      num_chunks_.push_back(1);
      ready_.push_back(0);
      for_each(prefill().at(m), [&](std::size_t r) {
        num_chunks_[m] = std::max(num_chunks_[m], requests[r].num_chunks);
        ready_[m] = std::max(ready_[m], requests[r].arrival_s);
      });
    }
    for (std::size_t q = 0; q < decode().sizes.size(); ++q) {
      num_tokens_.push_back(1);
      for_each(decode().at(q), [&](std::size_t r) {
        num_tokens_[q] = std::max(num_tokens_[q], requests[r].output_tokens);
      });
      still_.emplace_back();
      for_each(decode().at(q), [&](std::size_t r) {
        if (requests[r].output_tokens > 1) still_[q].push_back(r);
      });
      // The first to finish last, so that it is at hand.
      std::stable_sort(still_[q].begin(), still_[q].end(), [&](std::size_t a, std::size_t b) {
        return requests[a].output_tokens > requests[b].output_tokens;
      });
    }
  }

  template <typename Do>
  static void for_each(const MicroBatch& batch, Do&& apply) {
    for (std::int64_t i = 0; i < batch.size; ++i) {
      apply(static_cast<std::size_t>(batch.first_request + i));
    }
  }

  // Round `index` of a decode micro-batch has brought the last token of some of its requests.
  void finish_requests(std::size_t micro_batch, std::int64_t index, double time) {
    if (still_.empty()) return;
    std::vector<std::size_t>& still = still_[micro_batch];
    while (!still.empty() && pipeline_.requests[still.back()].output_tokens <= index + 1) {
      times_[still.back()].last_token_s = time;
      still.pop_back();
    }
  }

  // Each decode micro-batch waits for the prefill micro-batches that its requests were in.
  void link_phases() {
    waiters_.resize(prefill().sizes.size());
    std::size_t from = 0;
    for (std::size_t q = 0; q < decode().sizes.size(); ++q) {
      const std::int64_t begin = decode().first_request[q], end = begin + decode().sizes[q];
      while (prefill().first_request[from] + prefill().sizes[from] <= begin) ++from;
      for (std::size_t m = from; m < prefill().sizes.size() && prefill().first_request[m] < end;
           ++m) {
        waiters_[m].push_back(static_cast<std::uint32_t>(q));
        ++waiting_for_[q];
      }
    }
  }

  double ask(std::size_t track, Phase phase, std::size_t micro_batch, std::int64_t index) const {
    const auto& function = track % 2 == 0 ? pipeline_.stage_s : pipeline_.link_s;
    const MicroBatch batch = of(phase).at(micro_batch);
    const double seconds = function(track / 2, phase, batch, index);
    if (std::isfinite(seconds) && seconds >= 0) return seconds;
    throw Error(ErrorCode::internal,
                fmt::format("the time of {} {} in {} is {} s for a micro-batch of {}, {} {}",
                            track % 2 == 0 ? "stage" : "the link after stage", track / 2,
                            phase == Phase::prefill ? "prefill" : "decode", seconds, batch.size,
                            phase == Phase::prefill ? "chunk" : "token", index),
                "pipeline");
  }

  double duration(std::size_t track, Phase phase, std::size_t micro_batch, std::int64_t index) {
    std::vector<double>& cache = cached_[static_cast<std::size_t>(phase)];
    if (cache.empty()) return ask(track, phase, micro_batch, index);
    const std::size_t row = 2 * static_cast<std::size_t>(index) + of(phase).size_class(micro_batch);
    double& value = cache[row * num_tracks_ + track];
    if (value == kUnknown) value = ask(track, phase, micro_batch, index);
    return value;
  }

  double return_s(std::size_t micro_batch) const {
    const double seconds = pipeline_.return_s(decode().sizes[micro_batch]);
    if (std::isfinite(seconds) && seconds >= 0) return seconds;
    throw Error(ErrorCode::internal, fmt::format("the time to return tokens is {} s", seconds),
                "pipeline");
  }

  // Puts a unit in the queue of the next track on which it spends time; past the last one it is
  // finished, and its micro-batch goes on to the next round. Nothing is done at a stage without
  // layers, so nothing waits for it either.
  void advance(Arrival unit) {
    for (;;) {
      if (unit.track == 0 && pipeline_.host_s) {
        host_s_ += pipeline_.host_s(unit.phase, of(unit.phase).at(unit.micro_batch), unit.index);
      }
      for (; unit.track < num_tracks_; ++unit.track) {
        unit.seconds = duration(unit.track, unit.phase, unit.micro_batch, unit.index);
        if (unit.seconds == 0) continue;
        queue_.push(unit);
        return;
      }
      if (unit.phase == Phase::prefill) {
        if (unit.index + 1 == num_chunks_[unit.micro_batch]) {
          finish_prefill(unit.micro_batch, unit.time);
        }
        return;
      }
      if (unit.index == 1) first_round_[unit.micro_batch] = unit.time;
      last_token_[unit.micro_batch] = unit.time;
      finish_requests(unit.micro_batch, unit.index, unit.time);
      if (unit.index + 1 >= num_tokens_[unit.micro_batch]) return;
      unit = round(unit.micro_batch, unit.index + 1, unit.time);
    }
  }

  Arrival round(std::uint32_t micro_batch, std::uint32_t index, double previous_done) const {
    return {previous_done + return_s(micro_batch), Phase::decode, micro_batch, index};
  }

  // Arrivals leave the event queue in the order in which a track serves, so a track needs no queue
  // of its own: the time at which it is free says all.
  void serve(Arrival arrival) {
    const std::size_t track = arrival.track;
    const double seconds = arrival.seconds;
    const double start = std::max(arrival.time, free_at_[track]);
    free_at_[track] = start + seconds;
    busy_[track] += seconds;
    if (record_spans_) {
      spans_.push_back({track, arrival.phase, arrival.micro_batch, arrival.index, start, seconds});
    }
    arrival.time = free_at_[track];
    ++arrival.track;
    advance(arrival);
  }

  void finish_prefill(std::size_t micro_batch, double time) {
    first_token_[micro_batch] = time;
    if (!times_.empty()) {
      for_each(prefill().at(micro_batch), [&](std::size_t r) { times_[r] = {time, time}; });
    }
    for (const std::uint32_t q : waiters_[micro_batch]) {
      decode_ready_[q] = std::max(decode_ready_[q], time);
      if (--waiting_for_[q] > 0) continue;
      last_token_[q] = decode_ready_[q];
      if (num_tokens_[q] > 1) advance(round(q, 1, decode_ready_[q]));
    }
  }

  Run summary();
  double mean_period() const;
  void add_alike(Run& run) const;
  void add_requests(Run& run);

  const Pipeline& pipeline_;
  const bool record_spans_;
  const std::size_t num_tracks_;
  const MicroBatches batches_[2];
  std::vector<double> cached_[2];
  std::vector<double> free_at_, busy_;    // by track
  std::vector<std::int64_t> num_chunks_;  // by prefill micro-batch, as below
  std::vector<double> ready_, first_token_;
  std::vector<std::vector<std::uint32_t>> waiters_;  // by prefill micro-batch
  std::vector<std::size_t> waiting_for_;             // by decode micro-batch, as below
  std::vector<std::int64_t> num_tokens_;
  std::vector<double> decode_ready_, first_round_, last_token_;
  std::vector<std::vector<std::size_t>> still_;  // requests to finish, the next one last
  std::vector<RequestTimes> times_;              // by request, where they differ
  double host_s_ = 0;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> queue_;
  std::vector<Span> spans_;
};

// From the first decode round to the last; from the end of prefill where there is only one.
double Simulation::mean_period() const {
  double sum = 0, counted = 0;
  for (std::size_t q = 0; q < last_token_.size(); ++q) {
    const std::int64_t rounds = num_tokens_[q] - 1;
    if (rounds == 0) continue;
    ++counted;
    sum += rounds == 1 ? last_token_[q] - decode_ready_[q]
                       : (last_token_[q] - first_round_[q]) / static_cast<double>(rounds - 1);
  }
  return counted > 0 ? sum / counted : 0;
}

void Simulation::add_alike(Run& run) const {
  std::size_t m = 0, q = 0;
  double ttft = 0, tpot = 0;
  for (std::int64_t request = 0; request < pipeline_.batch_size; ++request) {
    while (prefill().first_request[m] + prefill().sizes[m] <= request) ++m;
    while (decode().first_request[q] + decode().sizes[q] <= request) ++q;
    ttft += first_token_[m];
    run.ttft_max_s = std::max(run.ttft_max_s, first_token_[m]);
    tpot += last_token_[q] - first_token_[m];
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

void Simulation::add_requests(Run& run) {
  double ttft = 0, tpot = 0, tokens = 0, counted = 0;
  for (std::size_t r = 0; r < times_.size(); ++r) {
    const Request& request = pipeline_.requests[r];
    const double first = times_[r].first_token_s;
    ttft += first - request.arrival_s;
    run.ttft_max_s = std::max(run.ttft_max_s, first - request.arrival_s);
    tokens += static_cast<double>(request.output_tokens);
    if (request.output_tokens == 1) continue;
    tpot += (times_[r].last_token_s - first) / static_cast<double>(request.output_tokens - 1);
    ++counted;
  }
  run.ttft_s = ttft / static_cast<double>(times_.size());
  if (counted > 0) run.tpot_s = tpot / counted;
  if (run.total_s > 0) run.throughput_tok_s = tokens / run.total_s;
  run.requests = std::move(times_);
}

Run Simulation::summary() {
  Run run;
  run.prefill_s = *std::max_element(first_token_.begin(), first_token_.end());
  run.total_s = std::max(run.prefill_s, *std::max_element(last_token_.begin(), last_token_.end()));
  run.decode_s = run.total_s - run.prefill_s;
  run.decode_round_s = mean_period();
  run.host_s = host_s_;
  if (pipeline_.requests.empty()) {
    add_alike(run);
  } else {
    add_requests(run);
  }
  for (std::size_t track = 0; track < num_tracks_; track += 2) {
    run.stages.push_back(
        {busy_[track], run.total_s > 0 ? std::max(0.0, 1 - busy_[track] / run.total_s) : 0});
  }
  run.spans = std::move(spans_);
  std::stable_sort(run.spans.begin(), run.spans.end(), [](const Span& a, const Span& b) {
    return a.start_s != b.start_s ? a.start_s < b.start_s : a.track < b.track;
  });
  return run;
}

}  // namespace

std::vector<std::int64_t> micro_batch_sizes(std::int64_t batch_size, std::int64_t largest) {
  if (batch_size < 1 || largest < 1) {
    throw Error(
        ErrorCode::out_of_range,
        fmt::format("cannot cut {} requests into micro-batches of at most {}", batch_size, largest),
        "batch_size");
  }
  const std::int64_t number = num_micro_batches(batch_size, largest);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(number), batch_size / number);
  for (std::int64_t i = 0; i < batch_size % number; ++i) ++sizes[static_cast<std::size_t>(i)];
  return sizes;
}

Run simulate(const Pipeline& pipeline, bool record_spans, std::int64_t max_events) {
  check(pipeline);
  check_events(pipeline, max_events);
  return Simulation(pipeline, record_spans).run();
}

}  // namespace tessera::sim
