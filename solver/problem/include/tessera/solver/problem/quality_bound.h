#pragma once

#include <cstdint>
#include <vector>

#include "tessera/core/files.h"
#include "tessera/solver/problem/problem.h"

namespace tessera::solver {

/// Sets what is known of the losses of the problem's model, published or its own (`levels`). With a
/// bound in users' words (`problem.bound`), or where `in_nats`, omega becomes these losses, and the
/// bound `max_omega`. For problems of a model: batch() is there.
/// @throws Error{not_found, invalid_argument} as published_quality
void set_quality(Problem& problem, const DataFolders& folders, bool in_nats = false);

/// What layers of these bitwidths, [num_layers], and a KV cache do to a model with a context's
/// kernels, by what is published.
Quality published_quality_of(const cost::PricingContext& context,
                             const std::vector<std::int32_t>& bitwidths, std::int32_t kv_bitwidth,
                             const DataFolders& folders);

}  // namespace tessera::solver
