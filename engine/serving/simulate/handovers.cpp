// The simulator's side of requests that are read in one pool and decoded in another.

#include <algorithm>

#include "simulation.h"

namespace tessera::serving {

std::size_t Simulation::decoder_of(std::int64_t request, Ticks now) {
  return decode_.engines.empty() ? kNobody : choose(decode_, request, now);
}

EngineCore& Simulation::core_of(std::size_t engine) { return engines_[engine]->core(); }

Sequence Simulation::loading_sequence(const Handover& handover) {
  return engines_[handover.target]->loading_sequence(handover.request);
}

Ticks Simulation::send(const Handover& handover, Ticks now) {
  const auto index = static_cast<std::size_t>(handover.request);
  const Ticks end = is_replayed() ? recorded_end(handover) : transfer_end(handover, now);
  sender_free_[handover.source] = end;
  push({end, Kind::transfer_end, handover.request, 0});
  replica_of_[index] = static_cast<std::int32_t>(handover.target);
  return end;
}

// One that had not come is over after all else.
Ticks Simulation::recorded_end(const Handover& handover) const {
  const auto index = static_cast<std::size_t>(handover.request);
  const Ticks took = options_.recorded->log->requests[index].transferred;
  return took > 0 ? handover.ready + took : options_.recorded->end + 1;
}

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

void Simulation::reject(std::int64_t request, Ticks now) {
  log_.requests[static_cast<std::size_t>(request)].outcome = Outcome::rejected;
  ++num_ended_;
  request_over(request, now);
}

void Simulation::has_released(std::size_t engine, Ticks now) {
  came(engine, now);
  Front& front = front_of_engine(engine);
  if (front.router->is_shared_queue()) drain(front, now);
}

void Simulation::end_transfer(std::int64_t request, Ticks now) {
  const auto ended = handovers_.end(request, now);
  if (!ended) return;
  log_.requests[static_cast<std::size_t>(request)].transferred = now - ended->ready;
}

}  // namespace tessera::serving
