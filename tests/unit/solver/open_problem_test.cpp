// What a problem leaves open, the problems that come of it, and the instance that plans share.
#include "tessera/solver/problem/open_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "four_devices.h"
#include "tessera/core/json.h"

namespace tessera::solver::open_problem_test {
namespace {

using tessera::test::four_devices;
using test::expect_error;
using ::testing::ElementsAre;

Choices open_choices() {
  Choices choices;
  choices.tensor_parallel = {1, 2};
  choices.kv_bitwidths = {16, 8};
  return choices;
}

TEST(Choices, HaveOneWayAtLeastAndNoneTwice) {
  const FieldPath path{"problem", "."};
  Choices choices;
  check_record(choices, path);
  choices.kv_bitwidths = {8, 4, 8};
  expect_error(ErrorCode::invalid_argument, {"problem.kv_bitwidth: give at least one number"},
               [&] { check_record(choices, path); });
  choices = {};
  choices.tensor_parallel.emplace();
  expect_error(ErrorCode::invalid_argument, {"problem.tensor_parallel: give at least one number"},
               [&] { check_record(choices, path); });
}

TEST(OpenProblem, TheFirstOfEachChoiceIsInForce) {
  const OpenProblem open = open_problem(four_devices(), open_choices());
  EXPECT_FALSE(open.first.batch()->mesh);
  EXPECT_EQ(open.first.batch()->kv_bitwidth, 16);
  EXPECT_THAT(degrees_of(*open.first.batch(), open.choices), ElementsAre(1, 2));
}

TEST(OpenProblem, HasAVariantForEachCombination) {
  const Variants variants = list_variants(open_problem(four_devices(), open_choices()));
  ASSERT_EQ(variants.problems.size(), 6u);  // {1,1,1,1}, {2,1,1} and {2,2} by 16 and 8 bits
  EXPECT_EQ(variants.names.front(), "4 of V100-32G, KV 16 bit");
  EXPECT_EQ(variants.names.back(), "2 of 2xV100-32G, KV 8 bit");
  EXPECT_EQ(variants.problems.back().batch()->mesh, (Mesh{{2, 2}}));
  EXPECT_EQ(variants.problems.back().batch()->kv_bitwidth, 8);
  for (const LoweredProblem& variant : variants.problems) {
    const Variants again = list_variants({variant, {}});  // nothing is left to choose
    ASSERT_EQ(again.problems.size(), 1u);
    EXPECT_EQ(again.problems.front(), variant);
    EXPECT_EQ(again.names.front(), "");
  }
}

TEST(OpenProblem, OneChoiceMayBeOpenWhileTheOtherIsSettled) {
  Problem problem = four_devices();
  problem.batch()->mesh = Mesh{{2, 1, 1}};
  Choices choices;
  choices.kv_bitwidths = {8, 4};
  const Variants variants = list_variants(open_problem(problem, choices));
  ASSERT_EQ(variants.problems.size(), 2u);
  EXPECT_EQ(variants.problems.back().batch()->mesh, (Mesh{{2, 1, 1}}));
  EXPECT_EQ(variants.problems.back().batch()->kv_bitwidth, 4);
}

TEST(OpenProblem, OfAPlanMayJoinItsDevicesAnewButKeepsItsCache) {
  Problem problem = four_devices();
  problem.batch()->mesh = Mesh{{2, 1, 1}};
  problem.batch()->kv_bitwidth = 8;
  const OpenProblem again = open_again(LoweredProblem(problem));
  EXPECT_EQ(again.first.batch()->mesh, (Mesh{{2, 1, 1}}));
  EXPECT_EQ(again.choices.tensor_parallel, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(list_variants(again).problems.size(), 3u);
  for (const LoweredProblem& variant : list_variants(again).problems) {
    EXPECT_EQ(variant.batch()->kv_bitwidth, 8);
  }
}

TEST(OpenProblem, APartHasSomeDevicesAndItsMeshOpen) {
  const OpenProblem part = part_of(open_problem(four_devices(), open_choices()), {1, 3}, 5);
  EXPECT_EQ(part.first.batch()->cluster.name, "2xV100-32G");
  EXPECT_EQ(part.first.batch()->workload.batch_size, 5);
  EXPECT_EQ(list_variants(part).problems.size(), 4u);  // {1,1} and {2} by 16 and 8 bits
}

TEST(LoweredProblem, IsLoweredOnceForAllCopies) {
  const LoweredProblem problem(four_devices());
  const LoweredProblem copy = problem;
  EXPECT_EQ(&problem.instance(), &copy.instance());
  EXPECT_EQ(problem.instance().num_devices(), 4u);
}

TEST(LoweredProblem, IsEqualByWhatItSays) {
  const LoweredProblem problem(four_devices());
  EXPECT_EQ(problem, LoweredProblem(four_devices()));
  Problem other = four_devices();
  other.theta = 2;
  EXPECT_NE(problem, LoweredProblem(other));
}

}  // namespace
}  // namespace tessera::solver::open_problem_test
