#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "small_instance.h"
#include "tessera/core/error.h"
#include "tessera/solver/ilp/ilp_planner.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver::infeasibility_test {
namespace {

using instances::small_instance;
using ::testing::HasSubstr;

class Infeasibility : public ::testing::Test {
 protected:
  void expect(const char* constraint, const std::string& text) const {
    const PlanResult result = make_ilp_planner()->plan(in, request);
    EXPECT_EQ(result.status, SolveStatus::infeasible);
    ASSERT_TRUE(result.violation);
    EXPECT_EQ(result.violation->constraint, constraint) << result.violation->message;
    EXPECT_THAT(result.violation->message, HasSubstr(text));
  }
  Instance in = small_instance();
  PlanRequest request;
};

TEST_F(Infeasibility, NothingObviousInAGoodRequest) {
  EXPECT_FALSE(find_obvious_infeasibility(in, request));
}

TEST_F(Infeasibility, EmbeddingThatDoesNotFitTheFirstDeviceOfTheOrder) {
  in.embedding_bytes[1] = 5.5e9;
  EXPECT_FALSE(find_obvious_infeasibility(in, request)) << "A can be first";
  request.order = {{1, 0, 0}};
  expect("embedding", "first stage: B needs 6.15 GiB (embeddings 5.12 GiB");
}

TEST_F(Infeasibility, EmbeddingThatFitsNoDevice) {
  in.embedding_bytes[1] = 50e9;
  expect("embedding", "no device can be the first stage");
  in.embedding_bytes[1] = 0;
  in.embedding_bytes[2] = 50e9;
  expect("embedding", "no device can be the last stage");
}

TEST_F(Infeasibility, WeightsThatFitNowhere) {
  in.layer_bytes = {5e9, 6e9, 7e9};
  expect("memory", "8 layers at their smallest need 37.25 GiB");
}

TEST_F(Infeasibility, DeviceTooSmallForOneLayer) {
  in.groups[1].usable_bytes = 0.9e9;
  expect("memory", "B needs 1.02 GiB");
  in.allow_empty_stage = true;
  EXPECT_FALSE(find_obvious_infeasibility(in, request)) << "it may be left out";
}

TEST_F(Infeasibility, NoKernel) {
  for (std::size_t bit = 0; bit < 3; ++bit) in.allowed[3 + bit] = 0;
  expect("kernel", "B has no kernel");
  in.allow_empty_stage = true;
  EXPECT_FALSE(find_obvious_infeasibility(in, request));
  in.allowed.assign(6, 0);
  expect("kernel", "no device has a kernel");
}

TEST_F(Infeasibility, FewerLayersThanStages) {
  in.layer_class.resize(2);
  expect("layers", "2 decoder layers for 3 stages");
}

TEST_F(Infeasibility, QualityOutOfReach) {
  in.max_omega = -0.5;
  expect("quality", "lower the floor");
}

TEST_F(Infeasibility, QualityOutOfReachOnlyTogetherWithMemory) {
  in.max_omega = 0.05;
  const PlanResult result = make_ilp_planner()->plan(in, request);
  EXPECT_EQ(result.status, SolveStatus::infeasible);
  ASSERT_TRUE(result.violation);
  EXPECT_EQ(result.violation->constraint, "quality");
}

TEST_F(Infeasibility, DevicesThatAreNotThere) {
  request.order = {{1, 1}};
  expect("devices", "the order uses 2 devices of type B, the cluster has 1");
  request.order.emplace();
  expect("devices", "empty");
}

TEST_F(Infeasibility, ArgumentsOutOfRangeAreErrors) {
  request.order = {{0, 9}};
  EXPECT_THROW(find_obvious_infeasibility(in, request), Error);
  request.order.reset();
  for (const std::int64_t size : {0, -1, 5}) {
    request.prefill_micro_batch_size = size;
    EXPECT_THROW(find_obvious_infeasibility(in, request), Error);
  }
}

}  // namespace
}  // namespace tessera::solver::infeasibility_test
