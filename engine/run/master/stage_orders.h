#pragma once

#include <cstdint>
#include <string>

#include "tessera/core/model_shape.h"
#include "tessera/run/execute.h"

// What the workers of a request are told to load.
namespace tessera::run {

/// Processes of all its engines.
std::int64_t count_ranks(const ExecuteRequest& request);

bool attends_elsewhere(const ExecuteRequest& request);

/// Before anything starts; loading would say the same.
/// @throws Error{out_of_range, unsupported} naming the numbers that cannot be
void check_stages(const ExecuteRequest& request, const ModelShape& shape);

/// Of a server with several engines: one reads prompts, the other decodes them.
/// @throws Error{invalid_argument, unsupported} for others, and where they cannot hand blocks over
void check_pools(const ExecuteRequest& request);

/// @param rank the first of the stage's
LoadOrder stage_order(const ExecuteRequest& request, const std::string& fingerprint,
                      const EngineRequest& engine, const EngineRequest::Stage& stage,
                      std::int32_t rank);

/// Of the rank that attends for a stage, whose own order is `order`.
LoadOrder attention_order(const ExecuteRequest& request, const EngineRequest::Stage& stage,
                          LoadOrder order, std::int32_t rank);

}  // namespace tessera::run
