#include "node_price.h"

#include <algorithm>

#include "tessera/core/error.h"

namespace tessera {
namespace {

constexpr double kMaxUsdPerH = 1e6;

}  // namespace

void read_node_price(JsonFields& fields, const std::string& path, std::size_t node_index,
                     Cluster& cluster) {
  const auto usd_per_h = fields.optional_number("usd_per_h", 0, kMaxUsdPerH);
  const bool has_source = fields.has("price_source");
  const std::string source = has_source ? fields.text("price_source") : "the cluster's";
  if (has_source && !usd_per_h) {
    refuse(path, "price_source: of a usd_per_h, which is missing");
  }
  if (!usd_per_h) return;
  const auto on_node = [&](const ClusterDevice& slot) { return slot.node_index == node_index; };
  const auto count = std::count_if(cluster.devices.begin(), cluster.devices.end(), on_node);
  for (ClusterDevice& slot : cluster.devices) {
    if (!on_node(slot)) continue;
    slot.device.price_usd_per_h = *usd_per_h / static_cast<double>(count);
    slot.device.price_source = source;
  }
}

}  // namespace tessera
