#include <algorithm>
#include <cmath>

#include "parts.h"

namespace tessera::serving {
namespace {

const Slo& slo_of(std::size_t request, const SummaryOptions& options) {
  if (options.slos.size() == 1 || options.slo_classes.empty()) return options.slos.front();
  return options.slos[static_cast<std::size_t>(options.slo_classes[request])];
}

double value_of(const RequestRecord& request, Metric metric) {
  switch (metric) {
    case Metric::ttft_s:
      return ttft_s(request);
    case Metric::tpot_s:
      return tpot_s(request);
    case Metric::e2e_s:
    case Metric::itl_s:
      break;
  }
  return e2e_s(request);
}

bool is_within(const RequestRecord& request, const Slo& slo) {
  if (!finished(request)) return false;
  for (const Metric metric : {Metric::ttft_s, Metric::tpot_s, Metric::e2e_s}) {
    const std::optional<double> longest = slo.of(metric).longest_s();
    if (longest && value_of(request, metric) > *longest) return false;
  }
  return true;
}

bool limits_requests(const Slo& slo) {
  return slo.ttft_s.longest_s() || slo.tpot_s.longest_s() || slo.e2e_s.longest_s();
}

/// Of a class: sorted latencies of finished requests, and how many never were.
struct Latencies {
  std::vector<double> sorted;
  std::size_t num_infinite = 0;
};

double q_of(Statistic statistic) {
  switch (statistic) {
    case Statistic::p50:
      return .5;
    case Statistic::p90:
      return .9;
    case Statistic::p95:
      return .95;
    case Statistic::p99:
    case Statistic::mean:
      break;
  }
  return .99;
}

std::optional<double> statistic_of(const Latencies& latencies, Statistic statistic) {
  const std::vector<double>& sorted = latencies.sorted;
  if (statistic == Statistic::mean) {
    if (latencies.num_infinite > 0 || sorted.empty()) return std::nullopt;
    double sum = 0;
    for (const double value : sorted) sum += value;
    return sum / static_cast<double>(sorted.size());
  }
  const std::size_t n = sorted.size() + latencies.num_infinite;
  if (n == 0) return std::nullopt;
  const double at = q_of(statistic) * static_cast<double>(n - 1);
  const auto low = static_cast<std::size_t>(at);
  const double share = at - static_cast<double>(low);
  if (low >= sorted.size()) return std::nullopt;
  if (share == 0) return sorted[low];
  if (low + 1 >= sorted.size()) return std::nullopt;
  return sorted[low] + share * (sorted[low + 1] - sorted[low]);
}

std::optional<double> statistic_of(const Distribution& d, Statistic statistic) {
  switch (statistic) {
    case Statistic::mean:
      return d.mean;
    case Statistic::p50:
      return d.p50;
    case Statistic::p90:
      return d.p90;
    case Statistic::p95:
      return d.p95;
    case Statistic::p99:
      break;
  }
  return d.p99;
}

Latencies latencies_of(const LookedAt& requests, const SummaryOptions& options, const Slo& slo,
                       Metric metric) {
  Latencies latencies;
  for (const Looked& looked : requests) {
    if (&slo_of(looked.index, options) != &slo) continue;
    if (!finished(*looked.record)) {
      ++latencies.num_infinite;
    } else if (metric != Metric::tpot_s || looked.record->output_tokens > 1) {
      latencies.sorted.push_back(value_of(*looked.record, metric));
    }
  }
  std::sort(latencies.sorted.begin(), latencies.sorted.end());
  return latencies;
}

void add_verdicts(Summary& summary, const LookedAt& requests, const SummaryOptions& options,
                  const Slo& slo) {
  for (const auto& [metric, name] : kEnumNames<Metric>) {
    const LatencyTarget& target = slo.of(metric);
    if (target.of_all.empty()) continue;
    Latencies latencies;
    if (metric != Metric::itl_s) {
      latencies = latencies_of(requests, options, slo, metric);
      if (latencies.sorted.empty() && latencies.num_infinite == 0) continue;  // nobody to judge
    } else if (summary.itl_s.n == 0) {
      continue;
    }
    for (const LatencyTarget::OfAll& wanted : target.of_all) {
      TargetVerdict verdict{slo.name, metric, wanted.statistic, wanted.limit_s, {}, false};
      verdict.value_s = metric == Metric::itl_s ? statistic_of(summary.itl_s, wanted.statistic)
                                                : statistic_of(latencies, wanted.statistic);
      verdict.holds = verdict.value_s && *verdict.value_s <= wanted.limit_s;
      summary.targets.push_back(std::move(verdict));
    }
  }
}

}  // namespace

void add_attainment(Summary& summary, const LookedAt& requests, const SummaryOptions& options) {
  if (std::all_of(options.slos.begin(), options.slos.end(), [](auto& s) { return s.empty(); })) {
    return;
  }
  for (const Slo& slo : options.slos) add_verdicts(summary, requests, options, slo);
  if (!summary.targets.empty()) {
    summary.attains_slo =
        summary.stable && std::all_of(summary.targets.begin(), summary.targets.end(),
                                      [](const TargetVerdict& verdict) { return verdict.holds; });
  }
  const bool limited = std::any_of(options.slos.begin(), options.slos.end(), limits_requests);
  if (!limited || requests.empty()) return;
  std::vector<double> within;
  double good = 0;
  for (const Looked& looked : requests) {
    within.push_back(is_within(*looked.record, slo_of(looked.index, options)) ? 1 : 0);
    good += within.back();
  }
  summary.attainment_ratio = good / static_cast<double>(within.size());
  const Interval interval = wilson_interval(*summary.attainment_ratio, effective_size(within));
  summary.attainment_low = interval.low;
  summary.attainment_high = interval.high;
  summary.goodput_request_per_s = summary.duration_s > 0 ? good / summary.duration_s : 0;
}

}  // namespace tessera::serving
