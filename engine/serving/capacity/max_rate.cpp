#include "tessera/serving/max_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/serving/traffic_options.h"

namespace tessera::serving {
namespace {

double quantile_of(Statistic statistic) {
  switch (statistic) {
    case Statistic::p50:
      return 0.5;
    case Statistic::p90:
      return 0.9;
    case Statistic::p95:
      return 0.95;
    case Statistic::p99:
      return 0.99;
    case Statistic::mean:
      break;
  }
  return 0;
}

double latency_s(const RequestRecord& r, Metric metric) {
  if (metric == Metric::ttft_s) return to_seconds(r.first_token - r.arrival);
  if (metric == Metric::tpot_s) {
    return r.output_tokens > 1
               ? to_seconds(r.last_token - r.first_token) / static_cast<double>(r.output_tokens - 1)
               : 0;
  }
  return to_seconds(r.last_token - r.arrival);
}

/// Counts requests beyond limits, and says when a target can no longer hold.
class EarlyVerdict {
 public:
  EarlyVerdict(const MaxRateOptions& options, std::size_t num_requests) : options_(options) {
    const SummaryOptions& summary = options.summary;
    const bool cuts = summary.warm_up_s > 0 || summary.cool_down_s > 0 ||
                      summary.warm_up_requests > 0 || summary.cool_down_requests > 0;
    if (cuts) return;  // then it is not known who counts
    const auto n = static_cast<double>(num_requests);
    for (std::size_t c = 0; c < summary.slos.size(); ++c) {
      double size = n;
      if (summary.slos.size() > 1) {
        size = static_cast<double>(std::count(
            summary.slo_classes.begin(), summary.slo_classes.end(), static_cast<std::int32_t>(c)));
      }
      if (size > 0) add_targets(c, size);
    }
    // (1 - 0.9) 10 is a little less than 1.
    most_outside_ = std::floor((1 - options.attainment_ratio) * n + 1e-6);
  }

  /// False when no rest of the run can mend it.
  bool goes_on(const RequestRecord& record, std::int64_t request) {
    if (record.outcome != Outcome::finished) return true;
    const SummaryOptions& summary = options_.summary;
    const std::size_t c =
        summary.slos.size() > 1 && !summary.slo_classes.empty()
            ? static_cast<std::size_t>(summary.slo_classes[static_cast<std::size_t>(request)])
            : 0;
    for (Target& target : targets_) {
      if (target.slo_class != c || latency_s(record, target.metric) <= target.limit_s) continue;
      // Single tokens have no TPOT; with fewer requests that have one fewer are enough, too.
      if (target.metric == Metric::tpot_s && record.output_tokens < 2) continue;
      if (++target.above < target.enough) continue;
      reason_ = fmt::format("{} {} is above {}: {:.0f} of {:.0f} requests are",
                            name_of(target.metric), name_of(target.statistic),
                            format_seconds(target.limit_s), target.above, target.num_requests);
      return false;
    }
    bool inside = true;
    for (const Metric metric : {Metric::ttft_s, Metric::tpot_s, Metric::e2e_s}) {
      const auto& each = summary.slos[c].of(metric).each;
      inside &= !each || latency_s(record, metric) <= *each;
    }
    if (inside || ++outside_ <= most_outside_) return true;
    reason_ = fmt::format("{:.0f} requests are outside the SLO, {:.0f} of all may be", outside_,
                          most_outside_);
    return false;
  }
  const std::string& reason() const { return reason_; }

 private:
  struct Target {
    std::size_t slo_class = 0;
    Metric metric = Metric::ttft_s;
    Statistic statistic = Statistic::p99;
    double limit_s = 0;
    double num_requests = 0, enough = 0, above = 0;
  };
  void add_targets(std::size_t c, double n) {
    for (const Metric metric : {Metric::ttft_s, Metric::tpot_s, Metric::e2e_s}) {
      for (const LatencyTarget::OfAll& target : options_.summary.slos[c].of(metric).of_all) {
        const double q = quantile_of(target.statistic);
        if (q == 0) continue;
        // The order statistic below the quantile is above the limit.
        targets_.push_back(
            {c, metric, target.statistic, target.limit_s, n, n - std::floor((n - 1) * q), 0});
      }
    }
  }

  const MaxRateOptions& options_;
  std::vector<Target> targets_;
  std::string reason_;
  double outside_ = 0, most_outside_ = kLongestRun_s;
};

std::string waiting_of(const Log& log) {
  std::pair<WideTicks, const char*> parts[kNumLimits] = {
      {0, "the step under way"},
      {0, "a seat (max_num_seqs)"},
      {0, "room in a step (max_num_batched_tokens)"},
      {0, "KV blocks"},
      {0, "the scheduler's own rule"}};
  for (const RequestRecord& r : log.requests) {
    if (r.arrival == kNever || r.outcome == Outcome::rejected) continue;
    for (std::size_t i = 0; i < kNumLimits; ++i) parts[i].first += r.waited[i];
  }
  const auto* most = std::max_element(std::begin(parts), std::end(parts));
  if (most->first <= 0) return {};
  return fmt::format("; requests wait for {}", most->second);
}

/// Whether the attainment of a run is that of limits on each request: percentiles count in it as
/// limits too. Beside those EarlyVerdict has counted.
bool limits_each_alone(const std::vector<Slo>& slos) {
  bool any = false;
  for (const Slo& slo : slos) {
    for (const Metric metric : {Metric::ttft_s, Metric::tpot_s, Metric::e2e_s}) {
      const LatencyTarget& target = slo.of(metric);
      if (!target.each && target.longest_s()) return false;
      any |= target.each.has_value();
    }
  }
  return any;
}

std::string broken_of(const Summary& summary, const MaxRateOptions& options) {
  if (summary.num_unplaced > 0) {
    return fmt::format("{} of {} requests are for a model that is not there when they come",
                       summary.num_unplaced, summary.num_requests);
  }
  if (summary.num_rejected > 0) {
    return fmt::format(
        "{} of {} requests can never run: their tokens exceed the context or the KV cache",
        summary.num_rejected, summary.num_requests);
  }
  if (!summary.cut_off.empty()) return summary.cut_off;
  if (!summary.stable) return "unstable: the queue grows";
  for (const TargetVerdict& target : summary.targets) {
    if (target.holds) continue;
    return fmt::format("{} {} is {}, {} allowed", name_of(target.metric), name_of(target.statistic),
                       target.value_s ? format_seconds(*target.value_s) : "infinite",
                       format_seconds(target.limit_s));
  }
  if (limits_each_alone(options.summary.slos) &&
      summary.attainment_ratio.value_or(1) < options.attainment_ratio) {
    return fmt::format("{:.1f} % of requests are within the SLO, {:.1f} % wanted",
                       100 * *summary.attainment_ratio, 100 * options.attainment_ratio);
  }
  return {};
}

class Search {
 public:
  Search(const Deployment& deployment, const Traffic& traffic, const MaxRateOptions& options)
      : deployment_(deployment), traffic_(traffic), options_(options), summary_(options.summary) {
    summary_.ranks_gaps = false;
  }

  MaxRate run();

 private:
  bool holds(double rate);
  void bracket(double most, bool guessed);
  double burst_rate() const;
  void measure_run();
  void add_note();
  bool room() const { return !rejects_ && std::ssize(result_.points) < options_.max_runs; }

  const Deployment& deployment_;
  const Traffic& traffic_;
  const MaxRateOptions& options_;
  SummaryOptions summary_;  ///< without what only the best run is asked for
  MaxRate result_;
  double low_ = 0, high_ = 0;     ///< the largest rate that held, the least above it that did not
  double stays_ = kLongestRun_s;  ///< of the best run
  std::map<double, std::string> limits_;  ///< of rates that failed
  bool rejects_ = false;                  ///< requests that never fit, at whatever rate
};

bool Search::holds(double rate) {
  // Of a million requests what stands around the simulation takes half a second each.
  const auto poll = [&] {
    if (options_.poll) options_.poll(0);
  };
  poll();
  const Traffic traffic = scaled(traffic_, rate);
  EarlyVerdict verdict(options_, traffic.requests.size());
  SimulationOptions run;
  run.poll = options_.poll;
  bool early = false;
  run.on_end = [&](const RequestRecord& record, std::int64_t request) {
    early = !verdict.goes_on(record, request);
    return !early;
  };
  Served served;
  served.log = simulate(deployment_, traffic, std::move(run));
  poll();
  // Of a run that was cut short nobody asks more than what its requests waited for.
  if (!early) served.summary = summarise(served.log, summary_);
  rejects_ = std::ranges::any_of(
      served.log.requests, [](const RequestRecord& r) { return r.outcome == Outcome::rejected; });
  RatePoint point;
  point.rate_per_s = rate;
  point.cut_short = early;
  point.broken = early ? verdict.reason() : broken_of(served.summary, options_);
  point.holds = point.broken.empty();
  if (!early) {
    point.ttft_p99_s = served.summary.ttft_s.p99;
    point.tpot_p99_s = served.summary.tpot_s.p99;
    point.attainment_ratio = served.summary.attainment_ratio;
    point.throughput_tok_s = served.summary.throughput_tok_s;
  }
  result_.points.push_back(point);
  if (point.holds) {
    if (rate > result_.rate_per_s) {
      result_.rate_per_s = rate;
      result_.served = std::move(served);
      measure_run();
    }
  } else {
    limits_[rate] = point.broken + waiting_of(served.log);
  }
  return point.holds;
}

// How long requests came, in times that they stayed. Below 1 nearly all are there at the same time,
// and a higher rate changes nothing; up to about 8 the run ends before its queues are what they
// would become (8B on an H200, 200 tokens: 32 % too high at 1.6, 7 % at 4, none at 8).
void Search::measure_run() {
  const double stayed_s = result_.served->summary.e2e_s.mean.value_or(0);
  const auto n = static_cast<double>(traffic_.requests.size());
  stays_ = stayed_s > 0 ? n / result_.rate_per_s / stayed_s : kLongestRun_s;
}

// Says what a short run leaves open.
void Search::add_note() {
  constexpr double kFewStays = 8;
  if (!result_.served || stays_ >= kFewStays) return;
  const std::size_t n = traffic_.requests.size();
  if (stays_ < 1) {
    result_.rate_per_s = std::min(result_.rate_per_s, result_.served->summary.request_per_s);
    result_.note = fmt::format(
        "all {} requests may come nearly at once, so they show no limit: give more requests; the "
        "rate is what was completed",
        n);
  } else {
    result_.note = fmt::format(
        "the {} requests came for only {:.1f} times as long as they stayed; a longer run may "
        "sustain less: give more requests",
        n, stays_);
  }
}

// All at once: what the deployment completes per second when nothing holds it up. Its drain makes
// it a little low.
double Search::burst_rate() const {
  Traffic burst = traffic_;
  for (Request& r : burst.requests) {
    if (r.after < 0) r.arrival = 0;
  }
  SimulationOptions run;
  run.poll = options_.poll;
  const Log log = simulate(deployment_, burst, std::move(run));
  return static_cast<double>(traffic_.requests.size()) / std::max(to_seconds(log.end), 1e-9);
}

// From where it is expected in growing strides, upwards until it fails or downwards until it holds.
void Search::bracket(double most, bool guessed) {
  // At lower rates the last request would come after the longest run.
  const double slowest = 4 * static_cast<double>(traffic_.requests.size()) / kLongestRun_s;
  double stride = guessed ? 1.06 : 1.3;
  double rate = std::max({guessed ? most : 0.7 * most, stride * low_, slowest});
  while (room() && high_ == 0 && rate < 64 * most) {
    if (holds(rate)) {
      low_ = rate;
      if (stays_ < 1) break;
      rate *= stride;
      stride *= stride;
    } else {
      high_ = rate;
    }
  }
  stride = guessed ? 1.06 : 2;
  while (room() && low_ == 0 && high_ > std::max(most * 1e-4, slowest) &&
         options_.least_rate_per_s == 0) {
    if (holds(high_ / stride)) {
      low_ = high_ / stride;
    } else {
      high_ /= stride;
      stride = std::min(2.0, stride * stride);
    }
  }
}

MaxRate Search::run() {
  const bool guessed = options_.guess_per_s > 0;
  const double most = guessed ? options_.guess_per_s : burst_rate();
  if (options_.least_rate_per_s > 0) {
    (holds(options_.least_rate_per_s) ? low_ : high_) = options_.least_rate_per_s;
  }
  bracket(most, guessed);
  const bool fails_at_least = options_.least_rate_per_s > 0 && low_ == 0;
  if (guessed && room() && stays_ >= 1 && (low_ == 0 || high_ == 0) && !fails_at_least) {
    // Far off, or no rate holds.
    const double burst = burst_rate();
    if (burst < 1e-4 * most || burst > 64 * most) {
      if (low_ == 0) high_ = 0;
      bracket(burst, false);
    }
  }
  while (room() && low_ > 0 && high_ > 0 && high_ - low_ > options_.tolerance * high_) {
    const double middle = low_ + (high_ - low_) / 2;
    (holds(middle) ? low_ : high_) = middle;
  }
  if (high_ > 0) {
    result_.fails_at_per_s = high_;
    result_.limited_by = limits_[high_];
  }
  add_note();
  if (result_.served) result_.served->summary.itl_s = distribution_of(result_.served->log.gaps);
  return std::move(result_);
}

}  // namespace

MaxRate max_rate(const Deployment& deployment, const Traffic& traffic,
                 const MaxRateOptions& options) {
  const bool none = std::all_of(options.summary.slos.begin(), options.summary.slos.end(),
                                [](const Slo& slo) { return slo.empty(); });
  if (none) refuse("slo", "give limits to keep to, such as { ttft_s = { p99 = 2 } }");
  if (traffic.concurrency) {
    refuse("traffic", "a closed loop has no rate: its requests wait for each other");
  }
  options.summary.check("ts.max_rate", traffic.requests.size());
  return Search(deployment, traffic, options).run();
}

}  // namespace tessera::serving
