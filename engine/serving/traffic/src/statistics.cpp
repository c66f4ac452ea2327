#include <fmt/format.h>

#include <cmath>

#include "tessera/core/error.h"
#include "tessera/serving/traffic_options.h"

namespace tessera::serving {

TrafficSummary summary_of(const Traffic& traffic) {
  TrafficSummary summary;
  summary.num_requests = static_cast<std::int64_t>(traffic.requests.size());
  summary.rate_per_s = traffic.rate_per_s;
  double prompts = 0, outputs = 0, sum = 0, squares = 0;
  std::int64_t num_arrivals = 0;
  Ticks last = 0;
  for (const Request& r : traffic.requests) {
    prompts += static_cast<double>(r.prompt_tokens);
    outputs += static_cast<double>(r.output_tokens);
    if (r.after >= 0) continue;
    if (num_arrivals++ > 0) {
      const double gap_s = to_seconds(r.arrival - last);
      sum += gap_s;
      squares += gap_s * gap_s;
    }
    last = r.arrival;
  }
  const auto n = static_cast<double>(traffic.requests.size());
  if (n > 0) {
    summary.mean_prompt_tokens = prompts / n;
    summary.mean_output_tokens = outputs / n;
  }
  summary.duration_s = to_seconds(last);
  if (num_arrivals > 1 && sum > 0) {
    const double gaps = static_cast<double>(num_arrivals - 1), mean = sum / gaps;
    summary.cv = std::sqrt(std::max(0.0, squares / gaps - mean * mean)) / mean;
  }
  return summary;
}

Traffic scaled(const Traffic& traffic, double rate_per_s, const std::string& path) {
  if (!(rate_per_s > 0) || !std::isfinite(rate_per_s)) {
    refuse(ErrorCode::out_of_range, path, "{}: a finite number above 0 is needed", rate_per_s);
  }
  if (traffic.concurrency) {
    refuse(path, "a closed loop has no rate: a request is sent when one ends");
  }
  if (!traffic.rate_per_s) {
    refuse(path,
           "these requests have no rate that could be changed: all come at once, or one comes "
           "alone");
  }
  Traffic result = traffic;
  const double factor = *traffic.rate_per_s / rate_per_s;
  for (Request& request : result.requests) {
    if (request.after >= 0) continue;
    request.arrival =
        to_ticks(to_seconds(request.arrival) * factor, path + ": the arrival of a request");
  }
  result.rate_per_s = rate_per_s;
  constexpr std::string_view kMark = ", rescaled to ";
  result.description.resize(std::min(result.description.find(kMark), result.description.size()));
  result.description += fmt::format("{}{:.6g} req/s", kMark, rate_per_s);
  if (traffic.replayed) {
    result.notes.push_back(fmt::format(
        "gaps of the trace divided by {:.6g}: their CV stays, bursts in seconds and the length of "
        "days do not",
        1 / factor));
  }
  return result;
}

}  // namespace tessera::serving
