#include <algorithm>
#include <cmath>

#include "parts.h"

namespace tessera::serving {
namespace {

/// Sums of amounts that lie evenly in intervals, by second.
class Seconds {
 public:
  explicit Seconds(Ticks length)
      : sums_(static_cast<std::size_t>(length / kTicksPerSecond) + 1), rates_(sums_.size() + 1) {}

  void add_at(Ticks time, double amount) { sums_[second(time)] += amount; }

  void add_between(Ticks begin, Ticks end, double amount) {
    const std::size_t first = second(begin), last = second(end);
    if (first == last) {
      sums_[first] += amount;
      return;
    }
    const double per_s = amount / to_seconds(end - begin);
    sums_[first] += per_s * (static_cast<double>(first + 1) - to_seconds(begin));
    sums_[last] += per_s * (to_seconds(end) - static_cast<double>(last));
    rates_[first + 1] += per_s;
    rates_[last] -= per_s;
  }

  double largest() const {
    double rate = 0, most = 0;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      rate += rates_[i];
      most = std::max(most, sums_[i] + rate);
    }
    return most;
  }

 private:
  static std::size_t second(Ticks time) { return static_cast<std::size_t>(time / kTicksPerSecond); }

  std::vector<double> sums_, rates_;  ///< of whole seconds: changes of the rate
};

}  // namespace

double peak_tok_s(const LookedAt& requests, Ticks origin) {
  Ticks end = origin;
  for (const Looked& looked : requests) {
    if (finished(*looked.record)) end = std::max(end, looked.record->last_token);
  }
  Seconds seconds(end - origin);
  for (const Looked& looked : requests) {
    const RequestRecord& r = *looked.record;
    if (!finished(r) || r.output_tokens < 1) continue;
    seconds.add_at(r.first_token - origin, 1);
    seconds.add_between(r.first_token - origin, r.last_token - origin,
                        static_cast<double>(r.output_tokens - 1));
  }
  return seconds.largest();
}

std::int64_t peak_concurrency(const LookedAt& requests) {
  std::vector<Ticks> arrivals, departures;
  for (const Looked& looked : requests) {
    if (looked.record->outcome == Outcome::rejected) continue;
    arrivals.push_back(looked.record->arrival);
    if (finished(*looked.record)) departures.push_back(looked.record->last_token);
    if (looked.record->outcome == Outcome::cancelled) {
      departures.push_back(looked.record->cancelled);
    }
  }
  std::sort(departures.begin(), departures.end());
  std::int64_t now = 0, most = 0;
  auto departure = departures.begin();
  for (const Ticks arrival : arrivals) {  // ascending; intervals are half open
    for (; departure != departures.end() && *departure <= arrival; ++departure) --now;
    most = std::max(most, ++now);
  }
  return most;
}

}  // namespace tessera::serving
