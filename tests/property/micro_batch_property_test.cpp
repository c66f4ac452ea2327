// That costs are monotone is a promise by which most micro-batch sizes are never priced: here all
// are.

#include <gtest/gtest.h>

#include "devices.h"
#include "shapes.h"
#include "tessera/core/rng.h"
#include "tessera/indicator/indicator.h"
#include "tessera/solver/problem/problem.h"

namespace tessera::solver::micro_batch_property_test {
namespace {

// Any model on a T4 and two V100, which may be one tensor-parallel group, priced by the roofline.
Problem any_problem(Rng& rng) {
  Problem problem;
  BatchProblem& batch = problem.given.emplace<BatchProblem>();
  const auto shapes = tessera::test::all_shapes();
  batch.model = shapes[static_cast<std::size_t>(
      rng.integer(0, static_cast<std::int64_t>(shapes.size()) - 1))];
  Node node;
  node.name = "node";
  batch.cluster.name = "test";
  batch.cluster.nodes = {node};
  batch.cluster.devices = {
      {tessera::test::t4(), 0}, {tessera::test::v100(), 0}, {tessera::test::v100(), 0}};
  if (rng.integer(0, 1) == 0) batch.mesh = Mesh{{1}, {2}};
  Workload& workload = batch.workload;
  workload.batch_size = rng.integer(1, 600);
  workload.prompt_tokens = workload.max_prompt_tokens = rng.integer(1, 1500);
  workload.output_tokens = workload.max_output_tokens = rng.integer(1, 500);
  if (rng.integer(0, 2) == 0) workload.chunk_tokens = rng.integer(16, 1024);
  batch.bitwidths = {3, 4, 8, 16};
  batch.indicator =
      indicator::make_constant(static_cast<std::size_t>(batch.model.num_layers), batch.bitwidths);
  batch.kernel_set = tessera::test::test_kernels();
  if (rng.integer(0, 1) == 0) batch.memory = cost::MemoryPreset::llm_pq;
  if (rng.integer(0, 1) == 0) batch.kv_bitwidth = 8;
  return problem;
}

TEST(MicroBatchProperty, SmallestSizesAreTheUsefulOnesOfARoofline) {
  Rng rng(20261122);
  int with_several = 0;
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    const Problem problem = any_problem(rng);
    Instance in = lower(problem);
    ASSERT_TRUE(in.monotone_costs);
    const auto promised = useful_micro_batch_sizes(in);
    in.monotone_costs = false;
    ASSERT_EQ(promised, useful_micro_batch_sizes(in)) << in.name;
    if (promised.size() > 10) ++with_several;
  }
  EXPECT_GT(with_several, 200);
}

}  // namespace
}  // namespace tessera::solver::micro_batch_property_test
