#include "instances.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/json.h"
#include "tessera/core/text.h"

namespace tessera {

std::string instance_key(const std::string& name) {
  std::string key = lower(name);
  std::replace(key.begin(), key.end(), '_', '-');
  for (const std::string_view service : {"standard-", "ml."}) {
    if (key.starts_with(service)) key.erase(0, service.size());
  }
  return key;
}

std::optional<Cluster> find_instance(const std::string& name, const DataFolders& folders) {
  const std::string key = instance_key(name);
  for (const std::string& provider : folders.list("instances")) {
    const std::string path = folders.find("instances", provider);
    const Json file = read_json_file(path);
    const Json& instances = JsonFields(file, path).at("instances");
    const JsonFields must_be_object(instances, path + ": instances");
    for (const auto& [own, node] : instances.items()) {
      if (instance_key(own) != key) continue;
      Json cluster = {{"name", own}, {"link_gbps", node.value("link_gbps", 0.0)}};
      cluster["nodes"] = Json::array({node});
      cluster["nodes"][0].erase("link_gbps");
      cluster["nodes"][0]["name"] = own;
      if (node.contains("usd_per_h") && file.contains("price_source")) {
        cluster["nodes"][0]["price_source"] =
            fmt::format("{}: {}", file.at("price_source").get<std::string>(), own);
      }
      return cluster_from_json(cluster, path + ": " + own, folders);
    }
  }
  return std::nullopt;
}

}  // namespace tessera
