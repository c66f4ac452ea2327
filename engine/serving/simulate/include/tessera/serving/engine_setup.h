#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/serving/deployment.h"
#include "tessera/serving/engine_core.h"
#include "tessera/serving/traffic.h"

/// An engine and its requests as a deployment and a traffic describe them, for whoever runs them.
namespace tessera::serving {

/// Its memory for keys and values.
BlockManager::Options kv_options(const Replica& replica);
/// @throws Error{invalid_argument} for a scheduler that cannot decide ahead, and should
std::unique_ptr<Scheduler> scheduler_of(const Replica& replica, const BlockManager::Options& kv);
/// Time to move a block between device and host.
Ticks swap_per_block(const Replica& replica);

/// What a request is, as far as schedulers see it: without its number.
Sequence sequence_of(const Traffic& traffic, const Request& request, Ticks arrival);
/// Tokens that it generates where it is decoded. The model's context ends a request too.
std::int64_t output_of(const Request& request, const EngineOptions& engine);

/// Why nothing will come of the requests that an engine has, in words; "" where it is not so.
std::string why_stalled(const EngineCore& core, const Replica& replica);
/// Why it goes round in circles (EngineCore::is_circling).
std::string why_circling(const EngineCore& core, const Replica& replica);

}  // namespace tessera::serving
