#pragma once

#include <utility>
#include <vector>

#include "devices.h"
#include "shapes.h"
#include "tessera/solver/problem/problem.h"

namespace tessera::test {

inline Indicator same_everywhere(std::size_t num_layers,
                                 const std::vector<std::int32_t>& bitwidths) {
  Indicator indicator;
  indicator.kind = "constant";
  indicator.num_layers = num_layers;
  indicator.bitwidths = bitwidths;
  indicator.omega.assign(num_layers * bitwidths.size(), 0.5);
  return indicator;
}

/// Four V100 on one node.
inline solver::Problem four_devices() {
  solver::ServingProblem serving;
  serving.model = opt("small", 4, 1024, 16);
  serving.cluster.name = "test";
  serving.cluster.nodes.emplace_back().name = "a";
  Device device = v100();
  device.pcie_bytes_per_s = 16e9;
  serving.cluster.devices.assign(4, {device, 0});
  serving.workload.batch_size = 8;
  serving.workload.prompt_tokens = serving.workload.max_prompt_tokens = 64;
  serving.workload.output_tokens = serving.workload.max_output_tokens = 8;
  serving.bitwidths = {8, 16};
  serving.indicator = same_everywhere(4, serving.bitwidths);
  serving.kernel_set = test_kernels();
  solver::Problem problem;
  problem.given = std::move(serving);
  return problem;
}

}  // namespace tessera::test
