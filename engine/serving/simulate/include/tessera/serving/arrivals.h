#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/serving/traffic.h"

namespace tessera::serving {

/// When the requests of a traffic reach an engine, or the router in front of several: at their own
/// times, in a closed loop, or after the end of another one.
class Arrivals {
 public:
  /// @param api from sending a request to its arrival. @param send is told of each once, as soon as
  /// its time is known; of those with times of their own one at a time
  Arrivals(const Traffic& traffic, Ticks api,
           std::function<void(Ticks time, std::int64_t request)> send);

  void begin();
  /// A request has come.
  void came(std::int64_t request, Ticks now);
  /// A request has ended, however.
  void over(std::int64_t request, Ticks now);
  /// When its client leaves who sent it now; kNever: it waits.
  Ticks leaves_at(std::int64_t request, Ticks now) const;

 private:
  void send_next(Ticks now);

  const Traffic& traffic_;
  Ticks api_;
  std::function<void(Ticks, std::int64_t)> send_;
  std::vector<std::int64_t> next_turn_;     ///< of a request; -1: none
  std::vector<std::int64_t> next_sibling_;  ///< another one that waits for the same; -1: none
  std::size_t next_ = 0;                    ///< of a closed loop, or the next open arrival
};

}  // namespace tessera::serving
