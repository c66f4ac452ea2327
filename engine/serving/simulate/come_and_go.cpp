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
  if (&front == &decode_) return handovers_.choose_again(kNobody, now);
  for (const std::int64_t request : std::exchange(front.queue, {})) route(request, now);
}

// What only waits for it goes elsewhere. What it has it ends, or gives back: steps under way end,
// those of requests that it gives up bring nothing.
void Simulation::go(std::size_t replica, Ticks now) {
  Front& front = front_of_engine(replica);
  std::erase(front.engines, replica);
  front.read_at = -1;
  if (&front == &decode_) handovers_.choose_again(replica, now);
  if (!this->replica(replica).drops) return;
  settle(replica, now);
  std::vector<std::int64_t> given_back = handovers_.break_off(replica, now);
  for (const std::size_t target : decode_.engines)
    handovers_.try_waiting(target, now);  // what is next may be smaller
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

}  // namespace tessera::serving
