#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/cost/memory.h"
#include "tessera/cost/stage_price.h"

/// What the members of a tensor-parallel group have in common, which may be unlike.
namespace tessera::cost {

/// The account of the member that has the least room: shards are equal.
MemoryAccount empty_account(const PricingContext& context, const std::vector<std::size_t>& members,
                            const MemoryQuery& query,
                            std::optional<double> utilisation = std::nullopt,
                            std::int64_t num_layers = 0);

/// Whether every member has a kernel for the bitwidth.
bool has_kernel(const PricingContext& context, const std::vector<std::size_t>& members,
                std::int32_t bitwidth);

/// Whether every member has one that reads a KV cache of so many bits.
bool reads_kv(const PricingContext& context, const std::vector<std::size_t>& members,
              std::int32_t kv_bitwidth);

}  // namespace tessera::cost
