#include "tessera/serving/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "parts.h"
#include "tessera/core/error.h"
#include "tessera/core/units.h"

namespace tessera::serving {

void SummaryOptions::check(const std::string& path, std::size_t num_requests) const {
  for (const Slo& slo : slos) {
    check_slo(slo, path + (slo.name.empty() ? ".slo" : ".slo." + slo.name));
  }
  const auto same_length = [&](std::size_t length, const char* what) {
    if (length == 0 || length == num_requests) return;
    refuse(path, "{} of {} requests, but the log has {}", what, length, num_requests);
  };
  same_length(slo_classes.size(), "classes");
  same_length(prompt_tokens.size(), "prompt lengths");
  for (std::size_t i = 0; slos.size() > 1 && i < slo_classes.size(); ++i) {
    const std::int32_t slo_class = slo_classes[i];
    if (slo_class >= 0 && static_cast<std::size_t>(slo_class) < slos.size()) continue;
    refuse(ErrorCode::out_of_range, path, "request {} is of SLO class {}, but there are {} classes",
           i, slo_class, slos.size());
  }
  const auto not_negative = [&](double value, const char* name) {
    if (value >= 0 && std::isfinite(value)) return;
    refuse(ErrorCode::out_of_range, path + "." + name, "{} is not 0 or more", value);
  };
  not_negative(warm_up_s, "warm_up_s");
  not_negative(cool_down_s, "cool_down_s");
  not_negative(static_cast<double>(warm_up_requests), "warm_up_requests");
  not_negative(static_cast<double>(cool_down_requests), "cool_down_requests");
  if (block_size < 1) refuse(ErrorCode::out_of_range, path, "a block of {} tokens", block_size);
}

namespace {

/// All that were sent, by arrival.
LookedAt sent_requests(const Log& log) {
  LookedAt sent;
  for (std::size_t i = 0; i < log.requests.size(); ++i) {
    if (log.requests[i].arrival != kNever) sent.push_back({&log.requests[i], i});
  }
  std::stable_sort(sent.begin(), sent.end(), [](const Looked& a, const Looked& b) {
    return a.record->arrival < b.record->arrival;
  });
  return sent;
}

LookedAt cut(const LookedAt& sent, const SummaryOptions& options) {
  if (sent.empty()) return sent;
  const double first_s = to_seconds(sent.front().record->arrival);
  const double last_s = to_seconds(sent.back().record->arrival);
  const auto n = static_cast<std::int64_t>(sent.size());
  LookedAt kept;
  for (std::int64_t i = options.warm_up_requests; i < n - options.cool_down_requests; ++i) {
    const Looked& looked = sent[static_cast<std::size_t>(i)];
    const double arrival_s = to_seconds(looked.record->arrival);
    if (options.warm_up_s > 0 && arrival_s < first_s + options.warm_up_s) continue;
    if (options.cool_down_s > 0 && arrival_s > last_s - options.cool_down_s) continue;
    kept.push_back(looked);
  }
  return kept;
}

/// Without those that nobody could have served.
LookedAt placed(LookedAt requests) {
  std::erase_if(requests, [](const Looked& looked) { return looked.record->is_unplaced; });
  return requests;
}

void add_latencies(Summary& summary, const LookedAt& requests, const Log& log,
                   const SummaryOptions& options) {
  std::vector<double> ttft, tpot, e2e, queue;
  for (const Looked& looked : requests) {
    const RequestRecord& r = *looked.record;
    if (!finished(r)) continue;
    ttft.push_back(ttft_s(r));
    e2e.push_back(e2e_s(r));
    queue.push_back(queue_s(r));
    if (r.output_tokens > 1) tpot.push_back(tpot_s(r));
  }
  summary.ttft_s = distribution_of(std::move(ttft));
  summary.tpot_s = distribution_of(std::move(tpot));
  summary.e2e_s = distribution_of(std::move(e2e));
  summary.queue_s = distribution_of(std::move(queue));
  const bool is_limited = std::any_of(options.slos.begin(), options.slos.end(), [](const Slo& slo) {
    return !slo.of(Metric::itl_s).empty();
  });
  if (options.ranks_gaps || is_limited) summary.itl_s = distribution_of(log.gaps);
}

void add_rates(Summary& summary, const LookedAt& requests, const SummaryOptions& options) {
  if (requests.empty()) return;
  const Ticks begin = requests.front().record->arrival;
  Ticks end = begin;
  std::int64_t prompt_tokens = 0;
  for (const Looked& looked : requests) {
    const RequestRecord& r = *looked.record;
    if (r.outcome == Outcome::rejected) ++summary.num_rejected;
    if (r.is_unplaced) ++summary.num_unplaced;
    if (r.outcome == Outcome::unfinished) ++summary.num_unfinished;
    if (r.outcome == Outcome::cancelled) ++summary.num_cancelled;
    if (!finished(r)) continue;
    ++summary.num_finished;
    end = std::max(end, r.last_token);
    summary.output_tokens += r.output_tokens;
    summary.transfer_s += to_seconds(r.transferred);
    if (!options.prompt_tokens.empty()) prompt_tokens += options.prompt_tokens[looked.index];
  }
  if (summary.num_finished > 0) summary.transfer_s /= static_cast<double>(summary.num_finished);
  summary.duration_s = to_seconds(end - begin);
  summary.peak_concurrency = peak_concurrency(requests);
  summary.peak_tok_s = peak_tok_s(requests, begin);
  const auto per_s = [&](std::int64_t count) {
    return summary.duration_s > 0 ? static_cast<double>(count) / summary.duration_s : 0;
  };
  summary.throughput_tok_s = per_s(summary.output_tokens);
  summary.request_per_s = per_s(summary.num_finished);
  if (!options.prompt_tokens.empty()) {
    summary.total_tok_s = per_s(prompt_tokens + summary.output_tokens);
  }
}

void add_waiting(Summary& summary, const LookedAt& requests) {
  static constexpr double Waiting::*places[kNumLimits] = {
      &Waiting::step, &Waiting::seats, &Waiting::tokens, &Waiting::blocks, &Waiting::policy};
  double all_s = 0;
  std::size_t count = 0;
  for (const Looked& looked : requests) {
    if (looked.record->outcome == Outcome::rejected) continue;
    ++count;
    for (std::size_t limit = 0; limit < kNumLimits; ++limit) {
      const double waited_s = to_seconds(looked.record->waited[limit]);
      summary.waited_s.*places[limit] += waited_s;
      all_s += waited_s;
    }
  }
  for (const auto place : places) {
    if (all_s > 0) summary.waited_ratio.*place = summary.waited_s.*place / all_s;
    if (count > 0) summary.waited_s.*place /= static_cast<double>(count);
  }
}

/// Why no run, however long, would answer its requests; empty: it would.
std::string why_never(const Log& log) {
  if (log.stuck) return "the run would never have ended: " + log.cut_off;
  const bool none =
      !log.requests.empty() && std::ranges::all_of(log.requests, [](const RequestRecord& r) {
        return r.outcome == Outcome::rejected;
      });
  if (!none) return "";
  const bool unplaced =
      std::ranges::all_of(log.requests, [](const RequestRecord& r) { return r.is_unplaced; });
  return unplaced ? "every request was rejected: its model was not there"
                  : "every request was rejected: they can never fit";
}

void add_stability(Summary& summary, const Log& log, const SummaryOptions& options) {
  const Stability stability = stability_of(log.requests, log.end, options.closed_loop);
  summary.offered_request_per_s = stability.offered_request_per_s;
  summary.stability = why_never(log);
  if (!summary.stability.empty()) {
    summary.stable = false;
    summary.verdict = "unstable: " + summary.stability;
    return;
  }
  summary.stable = stability.stable;
  summary.stability = stability.reason;
  summary.sustainable_request_per_s = stability.sustainable_request_per_s;
  summary.verdict =
      stability.stable
          ? "stable"
          : fmt::format("unstable above {} req/s: {} req/s came, and {}",
                        format_number(*stability.sustainable_request_per_s, 3),
                        format_number(*stability.offered_request_per_s, 3), stability.reason);
}

}  // namespace

Summary summarise(const Log& log, const SummaryOptions& options) {
  options.check("ts.serve", log.requests.size());
  const LookedAt sent = sent_requests(log);
  const LookedAt requests = cut(sent, options);
  Summary summary;
  summary.num_requests = static_cast<std::int64_t>(requests.size());
  summary.num_left_out = static_cast<std::int64_t>(sent.size() - requests.size());
  summary.num_unsent = static_cast<std::int64_t>(log.requests.size() - sent.size());
  summary.cut_off = log.cut_off;
  summary.source = options.source;
  summary.intervals = options.intervals;
  add_latencies(summary, requests, log, options);
  add_rates(summary, requests, options);
  add_waiting(summary, requests);
  add_stability(summary, log, options);
  add_attainment(summary, placed(requests), options);
  add_resources(summary, log, options.block_size);
  return summary;
}

}  // namespace tessera::serving
