#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/serving/log.h"

namespace tessera::serving {

/// Whether the load was below what the deployment can sustain.
///
/// The rule. While requests still arrive, what has come minus what has gone is a random walk. Its
/// arrival phase (first arrival to last, or to where the run was cut off) is cut into 20 slices of
/// equal length, and the growth of a count in each is taken as one observation. The run is unstable
/// if the mean growth is above 0 by Student's t at 0.25 % (t > 3.17, 19 degrees of freedom), the
/// growth is at least 10 requests, and this holds for one of three counts:
///  - requests that wait for their first step, over the whole phase;
///  - requests whose prompt is read and that wait for a decode engine of another pool;
///  - requests in the system, less those that would be there if all stayed as long as the first
///    quarter of the requests did (an empty system fills up, whatever its load). It sees servers
///    that admit everybody and slow down. Looked at only where that quarter stayed for a fifth of
///    the phase at most.
/// At the limit of stability the count is a random walk reflected at 0, whose end is distributed as
/// |N|, so that each count accuses a load of just 100 % in 0.5 % of runs, two in 1 % at most;
/// below 100 % growth comes back and the error is smaller still. Measured on M/M/1: at 100 % .73 %
/// of 4,000 runs of 100 requests, .40 % of 500, .65 % of 2,000; at 95 % .43, .03 and 0 %.
///
/// What it can see: with Poisson arrivals and exponential service a load of 1 + d is found in 5 of
/// 6 runs of 35 / d^2 requests. A shorter run near its limit is called stable: nothing shows that
/// it is not. A server without a limit on its batch settles within about stay / (1 - load): a run
/// that ends earlier may be called unstable by the second count, as its latencies do grow with its
/// length; the reason then says so, and the rate is too low.
///
/// Closed loops, and requests that all come at once, are finite batches: always stable, noted.
struct Stability {
  bool stable = true;
  std::optional<double> offered_request_per_s;  ///< absent: closed loop, all at once
  /// An estimate of the rate it would sustain: completions per second in the second half of the
  /// arrival phase (by the second count: its last quarter), or in the whole run where there were
  /// none. Absent where stable: then it is at least what was offered.
  std::optional<double> sustainable_request_per_s;
  double growth_per_s = 0;  ///< of the count that grows more significantly
  double t = 0;             ///< its t statistic
  std::string reason;       ///< one line: what grew, or why there was nothing to test
};

/// @param closed_loop requests are sent when others end
Stability stability_of(const std::vector<RequestRecord>& requests, Ticks end, bool closed_loop);

}  // namespace tessera::serving
