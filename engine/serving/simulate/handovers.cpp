// Requests that are read in one pool and decoded in another: their keys and values on the way.

#include <algorithm>

#include "simulation.h"

namespace tessera::serving {

Ticks Simulation::transfer_end(const Handover& handover, Ticks now) const {
  const KvTransfer& transfer = deployment_.transfer;
  const Request& r = traffic_.requests[static_cast<std::size_t>(handover.request)];
  const RequestRecord& record = log_.requests[static_cast<std::size_t>(handover.request)];
  double seconds = transfer.latency_s;
  if (transfer.bytes_per_s > 0) {
    seconds += replica(handover.source).kv_bytes_per_token *
               static_cast<double>(r.prompt_tokens + record.output_tokens - 1) /
               transfer.bytes_per_s;
  }
  const Ticks whole = to_ticks(seconds, "deployment.transfer");
  const Ticks free = sender_free_[handover.source];
  if (!transfer.per_layer) return std::max(now, free) + whole;
  // The first layer goes when it is computed; the last one's keys and values are there at the end.
  const Ticks layers = std::max<std::int64_t>(1, transfer.num_layers);
  const Ticks first = handover.started + (handover.ready - handover.started) / layers;
  return std::max(std::max(first, free) + whole, now + whole / layers);
}

void Simulation::hand_over(Handover handover, Ticks now) {
  handover.target =
      decode_.engines.empty() ? engines_.size() : choose(decode_, handover.request, now);
  handovers_[handover.target].push_back(handover);
  if (!decode_.engines.empty()) try_handovers(handover.target, now);
}

void Simulation::try_handovers(std::size_t target, Ticks now) {
  std::deque<Handover>& waiting = handovers_[target];
  while (!waiting.empty()) {
    Handover& first = waiting.front();
    const Request& r = traffic_.requests[static_cast<std::size_t>(first.request)];
    const std::int64_t max_tokens = r.max_tokens > 0 ? r.max_tokens : r.output_tokens;
    const std::string never = engines_[target]->scheduler().why_never(r.prompt_tokens, max_tokens);
    if (!never.empty()) {
      log_.requests[static_cast<std::size_t>(first.request)].outcome = Outcome::rejected;
      release(first, now);
      ++num_ended_;
      const std::int64_t request = first.request;
      waiting.pop_front();
      request_over(request, now);
      continue;
    }
    if (!engines_[target]->may_load(first.request)) return;
    if (settle(target, now)) continue;  // which tries them too
    if (!engines_[target]->begin_loading(first.request, now)) return;
    first.end = transfer_end(first, now);
    sender_free_[first.source] = first.end;
    push({first.end, Kind::transfer_end, first.request, 0});
    under_way_.emplace(first.request, first);
    replica_of_[static_cast<std::size_t>(first.request)] = static_cast<std::int32_t>(target);
    waiting.pop_front();
  }
}

// Its sender keeps nothing of it.
void Simulation::release(const Handover& handover, Ticks now) {
  engines_[handover.source]->let_go(handover.request, now);
  came(handover.source, now);
  Front& front = front_of_engine(handover.source);
  if (front.router->is_shared_queue()) drain(front, now);
}

void Simulation::end_transfer(std::int64_t request, Ticks now) {
  const auto it = under_way_.find(request);
  if (it == under_way_.end() || it->second.end != now) return;  // an end of it has gone meanwhile
  const Handover handover = it->second;
  log_.requests[static_cast<std::size_t>(request)].transferred = now - handover.ready;
  under_way_.erase(it);
  release(handover, now);
  if (handover.cancelled) {
    settle(handover.target, now);
    engines_[handover.target]->cancel(request, now);
    try_handovers(handover.target, now);
  } else {
    engines_[handover.target]->finish_loading(request);
  }
  came(handover.target, now);
}

// One that is read, and waits for blocks of a decode replica.
bool Simulation::cancel_handover(std::int64_t request, Ticks now) {
  for (std::deque<Handover>& waiting : handovers_) {
    const auto it = std::find_if(waiting.begin(), waiting.end(), [&](const Handover& handover) {
      return handover.request == request;
    });
    if (it == waiting.end()) continue;
    const Handover handover = *it;
    waiting.erase(it);
    release(handover, now);
    // The next one may be smaller.
    if (handover.target < engines_.size()) try_handovers(handover.target, now);
    return true;
  }
  return false;
}

}  // namespace tessera::serving
