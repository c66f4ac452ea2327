// Engines that come and go while a run goes on.

#include <algorithm>
#include <utility>

#include "simulation.h"

namespace tessera::serving {

// What waits for one is tried again.
void Simulation::come(std::size_t replica, Ticks now) {
  Front& front = front_of_engine(replica);
  std::vector<std::size_t>& there = front.engines;
  there.insert(std::upper_bound(there.begin(), there.end(), replica), replica);
  front.read_at = -1;
  if (&front == &decode_) return hand_over_elsewhere(engines_.size(), now);
  for (const std::int64_t request : std::exchange(front.queue, {})) route(request, now);
}

// What only waits for it goes elsewhere. What it has it ends, or gives back: steps under way end,
// those of requests that it gives up bring nothing.
void Simulation::go(std::size_t replica, Ticks now) {
  Front& front = front_of_engine(replica);
  std::erase(front.engines, replica);
  front.read_at = -1;
  if (&front == &decode_) hand_over_elsewhere(replica, now);
  if (!this->replica(replica).drops) return;
  settle(replica, now);
  std::vector<std::int64_t> given_back = break_handovers(replica, now);
  for (const std::int64_t request : engines_[replica]->requests()) {
    engines_[replica]->withdraw(request, now);
    given_back.push_back(request);
  }
  std::sort(given_back.begin(), given_back.end());
  for (const std::int64_t request : given_back) {
    RequestRecord& record = log_.requests[static_cast<std::size_t>(request)];
    // Who reads it again says when.
    if (decode_.router && record.first_scheduled != kNever) record.decode_started = kNever;
    route(request, now);
  }
}

void Simulation::hand_over_elsewhere(std::size_t target, Ticks now) {
  for (Handover& handover : std::exchange(handovers_[target], {})) hand_over(handover, now);
}

// What an engine that goes was to send or to get. Both ends give back its blocks.
// @return requests that somebody still waits for, and that are at no engine now
std::vector<std::int64_t> Simulation::break_handovers(std::size_t replica, Ticks now) {
  std::vector<std::int64_t> requests;
  for (std::deque<Handover>& waiting : handovers_) {
    std::erase_if(waiting, [&](const Handover& handover) {
      if (handover.source != replica) return false;
      engines_[replica]->let_go(handover.request, now);
      requests.push_back(handover.request);
      return true;
    });
  }
  std::vector<Handover> broken;
  for (const auto& [request, handover] : under_way_) {
    if (handover.source == replica || handover.target == replica) broken.push_back(handover);
  }
  std::sort(broken.begin(), broken.end(),
            [](const Handover& a, const Handover& b) { return a.request < b.request; });
  for (const Handover& handover : broken) {
    under_way_.erase(handover.request);
    release(handover, now);
    settle(handover.target, now);
    if (handover.cancelled) {
      engines_[handover.target]->cancel(handover.request, now);
    } else {
      engines_[handover.target]->withdraw(handover.request, now);
      requests.push_back(handover.request);
    }
    came(handover.target, now);
  }
  for (const std::size_t target : decode_.engines)
    try_handovers(target, now);  // what is next may be smaller
  return requests;
}

}  // namespace tessera::serving
