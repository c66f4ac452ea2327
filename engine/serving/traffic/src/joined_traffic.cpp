#include "tessera/serving/joined_traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tessera/core/error.h"

namespace tessera::serving {
namespace {

/// When a request has its place in the order: one of a later turn where its session started.
std::vector<Ticks> places_of(const std::vector<Request>& requests) {
  std::vector<Ticks> places;
  for (const Request& request : requests) {
    places.push_back(request.after < 0 ? request.arrival
                                       : places[static_cast<std::size_t>(request.after)]);
  }
  return places;
}

std::int32_t index_of(std::vector<std::string>& names, const std::string& name) {
  const auto known = std::find(names.begin(), names.end(), name);
  if (known != names.end()) return static_cast<std::int32_t>(known - names.begin());
  names.push_back(name);
  return static_cast<std::int32_t>(names.size() - 1);
}

void check(const Traffic& traffic, const std::string& path) {
  if (traffic.concurrency) {
    refuse(path, "a closed loop sends a request when another one ends; give open arrivals");
  }
  if (!traffic.block_ids.empty()) {
    refuse(path,
           "the trace has block ids, which stand for tokens of its own; give traffic without");
  }
}

}  // namespace

Traffic joined(const std::vector<std::reference_wrapper<const Traffic>>& streams,
               const std::string& path) {
  Traffic all;
  std::vector<Request> requests;  // one stream after the other
  std::int64_t groups = 0, sessions = 0;
  double rate_per_s = 0;
  for (const Traffic& one : streams) {
    check(one, path);
    const auto first = static_cast<std::int64_t>(requests.size());
    std::int64_t last_group = -1, last_session = -1;
    for (Request request : one.requests) {
      last_group = std::max(last_group, request.prefix_group);
      last_session = std::max(last_session, request.stream);
      if (request.after >= 0) request.after += first;
      if (request.prefix_group >= 0) request.prefix_group += groups;
      if (request.stream >= 0) request.stream += sessions;
      if (request.model >= 0) {
        request.model = index_of(all.models, one.models[static_cast<std::size_t>(request.model)]);
      }
      requests.push_back(request);
    }
    groups += last_group + 1;
    sessions += last_session + 1;
    rate_per_s += one.rate_per_s.value_or(0);
    all.replayed = all.replayed || one.replayed;
    all.description += (all.description.empty() ? "" : " and ") + one.description;
    all.notes.insert(all.notes.end(), one.notes.begin(), one.notes.end());
  }
  const bool have_rates = std::all_of(streams.begin(), streams.end(), [](const Traffic& one) {
    return one.rate_per_s.has_value();
  });
  if (have_rates) all.rate_per_s = rate_per_s;
  const std::vector<Ticks> places = places_of(requests);
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return places[a] < places[b]; });
  std::vector<std::int64_t> moved(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) moved[order[i]] = static_cast<std::int64_t>(i);
  for (const std::size_t i : order) {
    Request& request = all.requests.emplace_back(requests[i]);
    if (request.after >= 0) request.after = moved[static_cast<std::size_t>(request.after)];
  }
  return all;
}

}  // namespace tessera::serving
