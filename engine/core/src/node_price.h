#pragma once

#include <cstddef>
#include <string>

#include "tessera/core/cluster.h"
#include "tessera/core/json.h"

namespace tessera {

/// What a whole node costs, where its file says so (usd_per_h, price_source): its devices, which
/// have been read, share it instead of their list prices.
/// @throws Error{invalid_argument} for a source without a price
void read_node_price(JsonFields& fields, const std::string& path, std::size_t node_index,
                     Cluster& cluster);

}  // namespace tessera
