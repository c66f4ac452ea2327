#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "tessera/core/enum_names.h"
#include "tessera/lm/language_model.h"
#include "tessera/lm/sampling.h"
#include "tessera/serving/served.h"
#include "tessera/serving/simulate.h"

/// A traffic served by a model that runs, instead of a simulated one.
namespace tessera::run {

/// Whose time passes.
enum class ServeClock {
  wall,   ///< the machine's: steps take what they take
  model,  ///< the latency model's: steps take what it says, and as long as that is computed time
          ///< stands still
};

struct ServeRequest {
  std::shared_ptr<const lm::LanguageModel> model;
  std::shared_ptr<const lm::LanguageModel> draft_model = nullptr;  ///< that guesses for it
  ServeClock clock = ServeClock::wall;
  lm::SamplingOptions sampling = {.temperature = 0};  ///< request i (from 0) draws by seed + i
  std::uint64_t token_seed = 0;                       ///< of the prompts' tokens
  /// Outputs are as long as the traffic has them, whatever the model says; else as long as it says,
  /// and no longer than the traffic has them.
  bool ignore_stop_tokens = true;
  std::function<void(std::int64_t request, std::span<const std::int32_t> tokens)> on_tokens = {};
};

/// By a deployment of one engine, whose StepCost counts with the model's clock alone.
/// @throws Error{unsupported} naming what of the deployment does not run in one process,
/// Error{out_of_range} for an engine whose requests may be longer than the model's context; what
/// the model and policies throw
serving::Ran serve_traffic(const ServeRequest& request, const serving::Deployment& deployment,
                           const serving::Traffic& traffic,
                           const serving::SimulationOptions& options);

}  // namespace tessera::run

template <>
inline constexpr auto tessera::kEnumNames<tessera::run::ServeClock> =
    tessera::enum_names<tessera::run::ServeClock>({{tessera::run::ServeClock::wall, "wall"},
                                                   {tessera::run::ServeClock::model, "model"}});
