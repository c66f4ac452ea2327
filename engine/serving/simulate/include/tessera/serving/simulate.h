#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "tessera/serving/deployment.h"
#include "tessera/serving/engine_core.h"
#include "tessera/serving/log.h"
#include "tessera/serving/recorded.h"
#include "tessera/serving/stage_clocks.h"
#include "tessera/serving/traffic.h"

namespace tessera::serving {

struct SimulationOptions {
  bool record_steps = false;
  bool record_passes = false;
  bool skip = true;  ///< stretches of decode steps at once; the same log either way
  /// Where it skips: from so many running requests on their decodes are counted together.
  std::int64_t least_in_step = 32;
  std::uint64_t seed = 0;                   ///< of accepted drafts
  const Recorded* recorded = nullptr;       ///< what another run of the same engine took
  double horizon_s = kLongestRun_s;         ///< what is not done by then stays unfinished
  std::int64_t most_steps = 2'000'000'000;  ///< and stretches; then log.cut_off says so
  /// Called when a request has ended; false ends the run (log.cut_off says so).
  std::function<bool(const RequestRecord&, std::int64_t request)> on_end;
  /// Called when a step has ended, before its engine hears of it; where `record_passes` with its
  /// passes over the stages and the links between them: of stage s number 2 s, of the link after it
  /// 2 s + 1.
  std::function<void(const EngineCore&, const Work&, const StepTimes&, const std::vector<Pass>&)>
      on_step;
  bool named_blocks = false;  ///< as BlockManager::Options::named, for who looks at them there
  /// Called now and then, with the requests that have ended; throws to end the run.
  std::function<void(std::int64_t num_ended)> poll;
};

/// Runs the traffic through the deployment, event by event: at equal ticks ends of steps, ends of
/// transfers, arrivals, then starts of steps, each by number. Deterministic.
///
/// A run that can go no further (a policy that schedules nothing) ends, and log.cut_off says why.
/// @throws Error{invalid_argument} for a deployment without a replica to send requests to;
/// Error{out_of_range} for a run beyond kLongestRun_s; what step costs and policies throw.
Log simulate(const Deployment& deployment, const Traffic& traffic, SimulationOptions options = {});

}  // namespace tessera::serving
