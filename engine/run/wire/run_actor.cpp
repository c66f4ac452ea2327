#include <optional>

#include "tessera/run/tcp_transport.h"

namespace tessera::run {

void run_actor(Actor& actor, TcpTransport& transport) {
  while (!actor.is_done()) {
    const Nanoseconds now = transport.now();
    if (actor.wake_at() <= now) actor.tick();
    if (actor.is_done()) break;
    // Events first: what came may end the work that waits.
    if (auto event = transport.next(now)) {
      actor.on(std::move(*event));
    } else if (!actor.work()) {
      if (auto later = transport.next(actor.wake_at())) actor.on(std::move(*later));
    }
  }
  transport.flush(2 * kSecond);
}

}  // namespace tessera::run
