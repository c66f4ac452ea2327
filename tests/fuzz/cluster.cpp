// Cluster files, both forms.
#include "tessera/core/cluster.h"

#include "target.h"

TESSERA_FUZZ_TARGET(cluster) {
  using namespace tessera;
  static const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  return fuzz::read(data, size, [](std::string_view text) {
    const Cluster cluster = cluster_from_json(parse_json(text, "input"), "input", folders);
    fuzz::require(!cluster.devices.empty(), "a cluster without devices");
    const Link link = cluster.link(0, cluster.devices.size() - 1);
    fuzz::require(link.bytes_per_s > 0 && link.latency_s >= 0, "a link that carries nothing");
    fuzz::require_round_trip(cluster, [](const Json& json) {
      return cluster_from_json(json, "again", DataFolders({}));
    });
  });
}
