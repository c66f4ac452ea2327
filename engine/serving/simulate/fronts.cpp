// What stands in front of engines: routers, and requests that wait for one.

#include <fmt/format.h>

#include <algorithm>

#include "simulation.h"
#include "tessera/core/error.h"

namespace tessera::serving {

void Simulation::make_fronts() {
  fronts_.resize(deployment_.models ? deployment_.models->models.size() : 1);
  for (Front& front : fronts_) {
    front.router = deployment_.make_router(deployment_.router);
    front.is_open = !deployment_.models;
  }
  const bool decodes = std::ranges::any_of(deployment_.replicas,
                                           [](const Replica& r) { return r.role == Role::decode; });
  if (!decodes) return;
  // Decode engines have no queue in front and no prefixes to look for.
  const Router& first = *fronts_.front().router;
  RouterOptions options = deployment_.router;
  const bool other = first.is_shared_queue() || first.looks_for_prefixes();
  if (other) options.name = "least_tokens";
  decode_.router = other ? make_router(options) : deployment_.make_router(options);
}

Simulation::Front& Simulation::front_of(std::int64_t request) {
  const std::int32_t model = log_.requests[static_cast<std::size_t>(request)].model;
  return fronts_[model < 0 ? 0 : static_cast<std::size_t>(model)];
}

Simulation::Front& Simulation::front_of_engine(std::size_t i) {
  if (replica(i).role == Role::decode) return decode_;
  return fronts_[static_cast<std::size_t>(replica(i).model)];
}

const std::vector<ReplicaLoad>& Simulation::loads(Front& front, Ticks now) {
  const Ticks age = to_ticks(deployment_.router.signal_age_s, "signal_age_s");
  if (front.read_at >= 0 && now - front.read_at < age) return front.loads;
  front.loads.clear();
  for (const std::size_t i : front.engines) {
    front.loads.push_back(engines_[i]->load(now, front.router->looks_at_blocks(), is_over(i)));
  }
  front.read_at = age > 0 ? now / age * age : now;
  return front.loads;
}

RoutedRequest Simulation::routed_request(std::int64_t request) const {
  const Request& r = traffic_.requests[static_cast<std::size_t>(request)];
  RoutedRequest routed;
  routed.request = request;
  routed.prompt_tokens = r.prompt_tokens;
  routed.max_tokens = r.max_tokens > 0 ? r.max_tokens : r.output_tokens;
  routed.priority = r.priority;
  routed.slo_class = r.slo_class;
  return routed;
}

std::size_t Simulation::choose(Front& front, std::int64_t request, Ticks now) {
  const std::vector<std::size_t>& candidates = front.engines;
  if (candidates.size() == 1) return candidates.front();
  const Request& r = traffic_.requests[static_cast<std::size_t>(request)];
  RoutedRequest routed = routed_request(request);
  routed.cached_tokens = [&](std::size_t position) {
    return cached_tokens(candidates.at(position), request, now);
  };
  const std::vector<ReplicaLoad>& seen = loads(front, now);
  const std::size_t position = front.router->choose(seen, routed);
  if (position >= candidates.size()) {
    refuse("router", "chose replica {} of {} (0-based)", position, candidates.size());
  }
  // What it sent itself it knows, however old the signals are.
  ++front.loads[position].num_waiting;
  front.loads[position].pending_tokens += r.prompt_tokens;
  return candidates[position];
}

void Simulation::route(std::int64_t request, Ticks now) {
  Front& front = front_of(request);
  if (!front.is_open) return turn_away(request, now, true);
  if (placer_ && placer_->routes()) return route_by_placer(front, request, now);
  if (front.router->is_shared_queue() || front.engines.empty()) {
    front.queue.push_back(request);
    return drain(front, now);
  }
  submit(request, choose(front, request, now), now);
}

// What it drops its model could have served: an SLO misses it.
void Simulation::route_by_placer(Front& front, std::int64_t request, Ticks now) {
  const auto model = static_cast<std::size_t>(&front - fronts_.data());
  const auto position = placer_->route(model, to_seconds(now), routed_request(request));
  if (!position) return turn_away(request, now, false);
  if (*position >= front.engines.size()) {
    refuse("strategy", "chose engine {} of {} (0-based)", *position, front.engines.size());
  }
  submit(request, front.engines[*position], now);
}

void Simulation::drain(Front& front, Ticks now) {
  for (const std::size_t i : front.engines) {
    while (!front.queue.empty() &&
           static_cast<std::int64_t>(engines_[i]->scheduler().num_unfinished()) <
               replica(i).engine.max_num_seqs) {
      const std::int64_t request = front.queue.front();
      front.queue.pop_front();
      submit(request, i, now);
    }
  }
}

}  // namespace tessera::serving
