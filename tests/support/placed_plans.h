#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/cost/auto_kernel_set.h"
#include "tessera/solver/serving/deployment_plans.h"
#include "tessera/solver/serving/place.h"

namespace tessera::test {

/// Plans of engines of a shape, as many as fit, of a shipped model on a cluster.
inline std::vector<solver::PipelinePlan> placed_plans(const std::string& model,
                                                      const std::string& cluster,
                                                      const solver::DeploymentShape& shape,
                                                      const std::string& kernel_set = "vllm") {
  const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  const std::string path = folders.require("models", model);
  const cost::PricingContext context =
      cost::pricing_context(model_from_json(read_json_file(path), path),
                            find_cluster(cluster, folders), shape.bitwidths, kernel_set, folders);
  return solver::deployment_plans(context, solver::place(context.model, context.cluster, shape),
                                  folders);
}

}  // namespace tessera::test
