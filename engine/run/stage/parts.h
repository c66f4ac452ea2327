#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/run/stage_part.h"

namespace tessera::run {

/// Before anything is loaded: keeps to cores, and to the model that the master means.
/// @throws Error{io, invalid_argument}
void settle(const LoadOrder& order, const std::vector<std::int32_t>& cores);

/// Heads of a model's layers, without weights: the part of a rank that attends for another.
std::unique_ptr<StagePart> load_heads_part(const LoadOrder& order);

}  // namespace tessera::run
