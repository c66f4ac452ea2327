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
  solver::BatchProblem batch;
  batch.model = opt("small", 4, 1024, 16);
  batch.cluster.name = "test";
  batch.cluster.nodes.emplace_back().name = "a";
  Device device = v100();
  device.pcie_bytes_per_s = 16e9;
  batch.cluster.devices.assign(4, {device, 0});
  batch.workload.batch_size = 8;
  batch.workload.prompt_tokens = batch.workload.max_prompt_tokens = 64;
  batch.workload.output_tokens = batch.workload.max_output_tokens = 8;
  batch.bitwidths = {8, 16};
  batch.indicator = same_everywhere(4, batch.bitwidths);
  batch.kernel_set = test_kernels();
  solver::Problem problem;
  problem.given = std::move(batch);
  return problem;
}

}  // namespace tessera::test
