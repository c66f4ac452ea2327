// "3xT4-16G+1xV100-32G@100Gbps", as on the command line.
#include "target.h"
#include "tessera/core/cluster.h"

TESSERA_FUZZ_TARGET(cluster_text) {
  using namespace tessera;
  static const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  return fuzz::read(data, size, [](std::string_view text) {
    const Cluster cluster = find_cluster(std::string(text), folders);
    fuzz::require(!cluster.devices.empty() && cluster.devices.size() <= kMaxClusterDevices,
                  "a cluster with a wrong number of devices");
    fuzz::require_round_trip(cluster, [](const Json& json) {
      return cluster_from_json(json, "again", DataFolders({}));
    });
  });
}
