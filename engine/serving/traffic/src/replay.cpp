#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "sampling.h"
#include "tessera/core/error.h"
#include "trace_reader.h"

namespace tessera::serving {
namespace {

/// Keeps the requests that `keep` says yes to, which gets the index of the first turn that a
/// request goes back to.
template <class Keep>
void select(Traffic& traffic, const Keep& keep) {
  constexpr std::int64_t kGone = -1;
  std::vector<std::int64_t> root(traffic.requests.size()), place(traffic.requests.size());
  std::vector<Request> kept;
  for (std::size_t i = 0; i < traffic.requests.size(); ++i) {
    Request request = traffic.requests[i];
    root[i] = request.after >= 0 ? root[static_cast<std::size_t>(request.after)]
                                 : static_cast<std::int64_t>(i);
    const auto first = static_cast<std::size_t>(root[i]);
    // Who waits for a request that is gone goes too.
    const bool orphan =
        request.after >= 0 && place[static_cast<std::size_t>(request.after)] == kGone;
    if (orphan || (first == i && !keep(request))) {
      place[i] = kGone;
      continue;
    }
    if (request.after >= 0) request.after = place[static_cast<std::size_t>(request.after)];
    place[i] = static_cast<std::int64_t>(kept.size());
    kept.push_back(request);
  }
  traffic.requests = std::move(kept);
}

void refuse_none(const Traffic& traffic, const std::string& option, std::string_view why) {
  if (traffic.requests.empty()) refuse(option, why);
}

void cut_window(const TrafficOptions& o, const std::string& path, Traffic& traffic) {
  if (!o.start_s && !o.duration_s) return;
  const Ticks start = to_ticks(o.start_s.value_or(0), path + ".start_s");
  const Ticks length = o.duration_s ? to_ticks(*o.duration_s, path + ".duration_s") : kNever;
  const double last_s = summary_of(traffic).duration_s;
  select(traffic,
         [&](const Request& r) { return r.arrival >= start && r.arrival - start < length; });
  refuse_none(traffic, path + (o.start_s ? ".start_s" : ".duration_s"),
              fmt::format("no request of the trace arrives in that window; the last one does at "
                          "{:.6g} s",
                          last_s));
  for (Request& r : traffic.requests) {
    if (r.after < 0) r.arrival -= start;
  }
}

void thin(const TrafficOptions& o, const std::string& path, Traffic& traffic) {
  if (!o.thin) return;
  const bool sessions = std::any_of(traffic.requests.begin(), traffic.requests.end(),
                                    [](const Request& r) { return r.stream >= 0; });
  const bool shared =
      std::any_of(traffic.requests.begin(), traffic.requests.end(),
                  [](const Request& r) { return r.prefix_group >= 0 || r.num_block_ids > 0; });
  Rng rng = stream_of(o.seed, Draws::thin);
  std::unordered_map<std::int64_t, bool> of_session;
  select(traffic, [&](const Request& r) {
    if (r.stream < 0) return rng.uniform() < *o.thin;
    const auto [known, is_new] = of_session.try_emplace(r.stream, false);
    if (is_new) known->second = rng.uniform() < *o.thin;
    return known->second;
  });
  refuse_none(traffic, path + ".thin",
              fmt::format("with a share of {} no request is left; take a larger one, or another "
                          "seed",
                          *o.thin));
  std::string note = fmt::format("{} of the {} kept", *o.thin,
                                 sessions ? "sessions, each whole, were" : "requests were");
  if (sessions) note += ": turns find their own history as before";
  if (shared) {
    note += fmt::format(
        "{} prefixes that several share are found again less often than in the "
        "whole trace",
        sessions ? ", but" : ":");
  }
  traffic.notes.push_back(note);
}

void take_first(const TrafficOptions& o, Traffic& traffic) {
  if (!o.num_requests) return;
  const auto count = static_cast<std::size_t>(*o.num_requests);
  if (count < traffic.requests.size()) {
    traffic.requests.resize(count);  // turns follow those that they wait for
  } else if (count > traffic.requests.size()) {
    traffic.notes.push_back(fmt::format("{} requests where {} were asked for: there are no more",
                                        traffic.requests.size(), count));
  }
}

/// Requests per second between the first and the last arrival.
std::optional<double> measured_rate(const Traffic& traffic) {
  std::int64_t num_arrivals = 0;
  Ticks first = 0, last = 0;
  for (const Request& r : traffic.requests) {
    if (r.after >= 0) continue;
    if (num_arrivals++ == 0) first = r.arrival;
    last = r.arrival;
  }
  if (last <= first) return std::nullopt;
  const auto arrivals = static_cast<double>(num_arrivals);
  return (arrivals - 1) / to_seconds(last - first) * static_cast<double>(traffic.requests.size()) /
         arrivals;
}

/// Drops the block ids of requests that are gone.
void compact_block_ids(Traffic& traffic) {
  std::vector<std::int64_t> ids;
  for (Request& r : traffic.requests) {
    const auto begin = traffic.block_ids.begin() + r.first_block_id;
    r.first_block_id = r.num_block_ids > 0 ? static_cast<std::int64_t>(ids.size()) : 0;
    ids.insert(ids.end(), begin, begin + r.num_block_ids);
  }
  traffic.block_ids = std::move(ids);
}

void close_loop(const TrafficOptions& o, const std::string& path, Traffic& traffic) {
  for (Request& r : traffic.requests) {
    if (r.after >= 0) {
      refuse(path + ".arrivals",
             "turns of the trace wait for their own answers, and cannot wait "
             "for others' in a closed loop too");
    }
    r.arrival = 0;
  }
  traffic.concurrency = o.concurrency;
  traffic.notes.push_back(
      "the trace's arrivals are left out: a closed loop sends a request when "
      "one ends");
}

}  // namespace

void replay(const TrafficOptions& o, const std::string& path, Traffic& traffic) {
  cut_window(o, path, traffic);
  thin(o, path, traffic);
  take_by_intervals(o, path, traffic);
  take_first(o, traffic);
  compact_block_ids(traffic);
  if (o.arrivals == Arrivals::closed) {
    close_loop(o, path, traffic);
    return;
  }
  traffic.rate_per_s = measured_rate(traffic);
  if (!o.rate_per_s && !o.rate_scale) return;
  const std::string option = path + (o.rate_scale ? ".rate_scale" : ".rate_per_s");
  if (!traffic.rate_per_s) {
    refuse(option, "the requests of the trace arrive all at one time, so they have no rate");
  }
  traffic = scaled(traffic, o.rate_per_s ? *o.rate_per_s : *traffic.rate_per_s * *o.rate_scale);
}

}  // namespace tessera::serving
