#pragma once

#include <optional>
#include <string>

#include "tessera/core/cluster.h"
#include "tessera/core/files.h"

namespace tessera {

/// A machine's name as it is looked for: "ml.g5.12xlarge" and "Standard_NC24ads_A100_v4" are
/// "g5.12xlarge" and "nc24ads-a100-v4".
std::string instance_key(const std::string& name);

/// The machine that a cloud provider rents by this name ("g5.12xlarge", "a2-highgpu-8g",
/// "Standard_NC24ads_A100_v4"), as datasets/instances says, one file a provider.
std::optional<Cluster> find_instance(const std::string& name, const DataFolders& folders);

}  // namespace tessera
