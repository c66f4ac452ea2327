#include "tessera/solver/fleet/fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "expect_error.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/solver/fleet/check.h"
#include "tessera/solver/fleet/master.h"
#include "tessera/solver/fleet/solved_fleet.h"
#include "tessera/solver/fleet/transition.h"

namespace tessera::solver {
namespace {

using ::testing::HasSubstr;

/// One model on 4 nodes of 2 A and 2 nodes of 1 B.
FleetInstance small() {
  FleetInstance fleet;
  fleet.device_types = {{"A", 1}, {"B", 3}};
  fleet.node_classes = {{"2xA", 4, {{"A", 2}}, 2}, {"1xB", 2, {{"B", 1}}, 3}};
  fleet.models = {{"m", {4}}};
  fleet.columns = {{0, {{"A", 1}}, {1}}, {0, {{"B", 1}}, {3.5}}};
  return fleet;
}

FleetAnswer solve(const FleetInstance& fleet, FleetOptions options = {}) {
  options.gap = 0;
  FleetAnswer answer = FleetMaster(fleet).solve(options);
  if (answer.objective) {
    EXPECT_TRUE(check_fleet(fleet, answer.placement).violations.empty());
  }
  return answer;
}

double best(const FleetInstance& fleet) {
  const FleetAnswer answer = solve(fleet);
  EXPECT_EQ(answer.status, FleetStatus::optimal);
  return answer.objective.value_or(-1);
}

FleetLack lack(const FleetInstance& fleet) {
  const FleetAnswer answer = solve(fleet);
  EXPECT_EQ(answer.status, FleetStatus::infeasible);
  return answer.lack.value_or(FleetLack{});
}

TEST(Fleet, IsTheCheapestOfWhatServesTheDemand) {
  EXPECT_NEAR(best(small()), 4, 1e-9);  // 4 A, or an A beside a B
  FleetInstance fleet = small();
  fleet.models[0].demand = {5};
  EXPECT_NEAR(best(fleet), 5, 1e-9);
  fleet.objective = FleetObjective::gpus;
  EXPECT_NEAR(best(fleet), 2, 1e-9);  // B, B
  fleet.objective = FleetObjective::rate;
  EXPECT_NEAR(best(fleet), 15.0 / 5, 1e-6);
  fleet.max_usd_per_h = 3;
  EXPECT_NEAR(best(fleet), 3.5 / 5, 1e-6);
}

TEST(Fleet, BilledByNodeFillsTheNodesThatItPaysFor) {
  FleetInstance fleet = small();
  fleet.billing = Billing::node;
  fleet.models[0].demand = {3};
  EXPECT_NEAR(best(fleet), 3, 1e-9);  // a B at 3, not two nodes of A at 4
  fleet.models[0].demand = {2};
  EXPECT_NEAR(best(fleet), 2, 1e-9);
}

TEST(Fleet, WithAReserveServesWithoutAnyNode) {
  FleetInstance fleet = small();
  fleet.reserve_nodes = 1;
  // 3 nodes of two A each leave 4; two B leave 3.5; a B beside 4 A leaves 4 without the B.
  EXPECT_NEAR(best(fleet), 6, 1e-9);
  fleet.reserve_nodes = 2;
  EXPECT_NEAR(best(fleet), 8, 1e-9);  // of 4 nodes of two A two are left
  fleet.models[0].demand = {9};
  EXPECT_EQ(lack(fleet).kind, FleetLack::Kind::reserve);
}

TEST(Fleet, OnOneNodeHasNoReserve) {
  FleetInstance fleet = small();
  fleet.node_classes = {{"2xA", 1, {{"A", 2}}, 2}};
  fleet.models[0].demand = {1};
  fleet.reserve_nodes = 1;
  const FleetLack why = lack(fleet);
  EXPECT_EQ(why.kind, FleetLack::Kind::reserve);
  EXPECT_EQ(why.models, std::vector<std::string>{"m"});
  EXPECT_THAT(why.message, HasSubstr("when a node is lost"));
  EXPECT_EQ(why.least, 1);
}

TEST(Fleet, SaysHowManyNodesLack) {
  FleetInstance fleet = small();
  fleet.models[0].demand = {30};
  const FleetLack why = lack(fleet);
  EXPECT_EQ(why.kind, FleetLack::Kind::devices);
  EXPECT_NEAR(*why.have, 0.5, 1e-6);
  EXPECT_EQ(why.least, 5);  // 15 more, 3.5 of each B
  EXPECT_THAT(why.message, HasSubstr("'m'"));
}

TEST(Fleet, SaysWhatABudgetLacks) {
  FleetInstance fleet = small();
  fleet.max_usd_per_h = 3.5;
  const FleetLack why = lack(fleet);
  EXPECT_EQ(why.kind, FleetLack::Kind::budget);
  EXPECT_NEAR(*why.have, 3.5, 1e-9);
  EXPECT_NEAR(*why.least, 4, 1e-9);
}

TEST(Fleet, NamesAModelThatFitsNowhere) {
  FleetInstance fleet = small();
  fleet.models.push_back({"large", {1}});
  fleet.columns.push_back({1, {{"A", 3}}, {1}});  // more than a node
  FleetLack why = lack(fleet);
  EXPECT_EQ(why.kind, FleetLack::Kind::column);
  EXPECT_EQ(why.models, std::vector<std::string>{"large"});
  fleet.columns.back() = {1, {{"B", 1}}, {0}};  // serves nothing
  EXPECT_EQ(lack(fleet).kind, FleetLack::Kind::column);
  fleet.node_classes[1].count = 0;
  fleet.columns.back() = {1, {{"B", 1}}, {5}};  // its class is empty
  EXPECT_EQ(lack(fleet).kind, FleetLack::Kind::column);
  fleet.objective = FleetObjective::rate;
  const FleetAnswer answer = solve(fleet);
  EXPECT_EQ(answer.objective, 0);
  EXPECT_FALSE(answer.notes.empty());
}

TEST(Fleet, KeepsToSideConstraints) {
  FleetInstance fleet = small();
  fleet.models[0].demand = {2};
  fleet.constraints = {{.model = 0, .min_nodes = 2}};
  EXPECT_NEAR(best(fleet), 2, 1e-9);  // the same money, spread
  fleet.constraints = {{.model = 0, .max_gpus = 1, .device_type = "A"}};
  EXPECT_NEAR(best(fleet), 3, 1e-9);
  fleet.constraints = {{.model = 0, .min_replicas = 5}};
  EXPECT_NEAR(best(fleet), 5, 1e-9);
  fleet.constraints = {{.model = 0, .max_replicas = 0}};
  EXPECT_EQ(lack(fleet).kind, FleetLack::Kind::constraint);
  fleet.models.push_back({"other", {7}});
  fleet.columns.push_back({1, {{"A", 1}}, {1}});
  fleet.constraints = {};
  EXPECT_NEAR(best(fleet), 7 + 3, 1e-9);  // an A for m is the eighth, and too little
  fleet.models[1].demand = {6};
  EXPECT_NEAR(best(fleet), 6 + 2, 1e-9);
  fleet.constraints = {{.model = 0, .not_beside = 1}};
  EXPECT_NEAR(best(fleet), 6 + 2, 1e-9);
  fleet.models[0].demand = {1};
  fleet.models[1].demand = {7};
  EXPECT_NEAR(best(fleet), 7 + 3, 1e-9);  // the eighth A is beside the other
}

TEST(Fleet, OfRequestsOfTwoSizesSharesItsReplicas) {
  FleetInstance fleet = small();
  fleet.models = {{"m", {1, 1}}};
  // A is good at the first, B at the second; each alone would take more.
  fleet.columns = {{0, {{"A", 1}}, {1, 0.25}}, {0, {{"B", 1}}, {2, 1}}};
  EXPECT_NEAR(best(fleet), 4, 1e-9);
  fleet.columns[1].rate = {2, 2};
  EXPECT_NEAR(best(fleet), 3, 1e-9);  // half its time each
}

TEST(Fleet, TakesWholeNodes) {
  FleetInstance fleet = small();
  fleet.columns = {{0, {{"A", 2}}, {5}, 2}};
  EXPECT_NEAR(best(fleet), 4, 1e-9);
  fleet.models[0].demand = {10};
  EXPECT_NEAR(best(fleet), 8, 1e-9);
  fleet.node_classes[0].count = 1;  // not even one replica
  EXPECT_EQ(lack(fleet).kind, FleetLack::Kind::column);
}

// What fits in sum does not fit node by node: 3 x 2 devices on 2 nodes of 3.
TEST(Fleet, PacksNodeByNode) {
  FleetInstance fleet;
  fleet.device_types = {{"A", 1}, {"B", 9}};
  fleet.node_classes = {{"3xA", 40, {{"A", 3}}, 3}, {"1xB", 200, {{"B", 1}}, 9}};
  fleet.models = {{"m", {60}}};
  fleet.columns = {{0, {{"A", 2}}, {1}}, {0, {{"B", 1}}, {1}}};
  EXPECT_NEAR(best(fleet), 40 * 2 + 20 * 9, 1e-9);
  // Of 12 devices 5 and 4: in sum 5 + 5, but of 4 and 5 no node holds more than two or three.
  fleet.node_classes[0] = {"12xA", 30, {{"A", 12}}, 12};
  fleet.models = {{"five", {60}}, {"four", {30}}};
  fleet.columns = {{0, {{"A", 5}}, {1}}, {1, {{"A", 4}}, {1}}, {1, {{"B", 1}}, {1}}};
  EXPECT_NEAR(best(fleet), 300 + 270, 1e-9);
}

TEST(Fleet, OfZeroDemandIsEmpty) {
  FleetInstance fleet = small();
  fleet.models[0].demand = {0};
  const FleetAnswer answer = solve(fleet);
  EXPECT_EQ(answer.status, FleetStatus::optimal);
  EXPECT_EQ(answer.objective, 0);
  EXPECT_TRUE(answer.placement.empty());
}

TEST(Fleet, OfZeroPricesCostsNothing) {
  FleetInstance fleet = small();
  for (FleetDevice& type : fleet.device_types) type.usd_per_h = 0;
  EXPECT_EQ(best(fleet), 0);
}

TEST(Fleet, OfAMillionNodesIsOneClass) {
  FleetInstance fleet = small();
  fleet.node_classes[0].count = 1'000'000;
  fleet.models[0].demand = {5000};
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NEAR(best(fleet), 2 * 3 + 4993, 1e-6);
  fleet.reserve_nodes = 1;
  EXPECT_LT(best(fleet), 5010);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 10);
}

TEST(Fleet, OfTinyAndHugeRatesIsScaled) {
  FleetInstance fleet = small();
  fleet.models = {{"tiny", {4e-9}}, {"huge", {2e9}}};
  fleet.columns = {{0, {{"A", 1}}, {1e-9}}, {1, {{"B", 1}}, {1e9}}};
  EXPECT_NEAR(best(fleet), 4 + 6, 1e-9);
  fleet.columns = {{0, {{"A", 1}}, {1e-9}}, {0, {{"B", 1}}, {1e9}}, {1, {{"B", 1}}, {1e9}}};
  fleet.models[1].demand = {1e9};
  EXPECT_NEAR(best(fleet), 3 + 3, 1e-9);
}

TEST(Fleet, IsNoOtherWithColumnsThatAreAlikeOrNoBetter) {
  FleetInstance fleet = small();
  fleet.columns.push_back(fleet.columns[0]);
  fleet.columns.push_back({0, {{"A", 2}}, {1}});
  const FleetAnswer answer = solve(fleet);
  EXPECT_NEAR(*answer.objective, 4, 1e-9);
  EXPECT_EQ(answer.notes.size(), 2U);
}

TEST(Fleet, MovesNoMoreThanThatSaves) {
  FleetInstance fleet = small();
  fleet.around = {{{0, {0}}, {0, {0}}, {0, {1}}, {0, {1}}}};
  fleet.switch_usd = 0.5;
  fleet.models[0].demand = {5};  // one A more, not a B in the place of four
  const FleetAnswer more = solve(fleet);
  EXPECT_NEAR(*more.objective, 5.5, 1e-9);
  EXPECT_NEAR(more.usd_per_h, 5, 1e-9);
  EXPECT_EQ(check_fleet(fleet, more.placement).switched, 1);
  // Of an A at 1.5 a B beside one saves 1.5 USD/h, and three stops and a start cost 2 USD.
  fleet.models[0].demand = {4};
  fleet.device_types[0].usd_per_h = 1.5;
  EXPECT_EQ(check_fleet(fleet, solve(fleet).placement).switched, 0);
  fleet.hours = 24;
  const FleetAnswer day = solve(fleet);
  EXPECT_NEAR(day.usd_per_h, 4.5, 1e-9);
  EXPECT_EQ(check_fleet(fleet, day.placement).switched, 4);
  EXPECT_NEAR(*day.objective, 4.5 + 4 * 0.5 / 24, 1e-9);
}

TEST(Fleet, OfARowCountsWhatRunsBeforeAndAfter) {
  FleetInstance fleet = small();
  fleet.models[0].demand = {1};
  fleet.switch_usd = 0.6;
  const FleetPlacement two = {{0, {0}}, {0, {0}}};
  fleet.around = {two};
  EXPECT_NEAR(best(fleet), 1 + 0.6, 1e-9);  // one of two stops
  fleet.around = {two, two};
  EXPECT_NEAR(best(fleet), 2, 1e-9);  // it would have to come back
}

TEST(Fleet, KeepsReplicasOnTheNodesThatTheyHave) {
  FleetInstance fleet = small();
  fleet.switch_usd = 5;
  fleet.models[0].demand = {3};
  fleet.around = {{{0, {3}}, {0, {1}}, {0, {1}}}};
  const FleetAnswer answer = solve(fleet);
  EXPECT_NEAR(*answer.objective, 3, 1e-9);
  EXPECT_EQ(switches(fleet.around[0], answer.placement).count(), 0);
}

TEST(FleetTransition, StartsBeforeItStopsWhereThereIsRoom) {
  FleetInstance fleet = small();
  fleet.models[0].demand = {2};
  const FleetPlacement from = {{0, {0}}, {0, {0}}}, to = {{0, {1}}, {0, {1}}};
  const FleetTransition way = transition(fleet, from, to);
  ASSERT_EQ(way.steps.size(), 4U);
  EXPECT_TRUE(way.steps[0].starts && way.steps[1].starts);
  EXPECT_FALSE(way.steps[2].starts || way.steps[3].starts);
  EXPECT_TRUE(way.full_nodes.empty());
  EXPECT_NEAR(way.least_scale[0], 1, 1e-12);
}

TEST(FleetTransition, SaysWhereTheOldHasToGoFirst) {
  FleetInstance fleet = small();
  fleet.models = {{"m", {2}}, {"n", {1}}};
  fleet.columns = {{0, {{"A", 1}}, {1}}, {1, {{"A", 2}}, {1}}, {0, {{"B", 1}}, {2}}};
  // n takes the place of m, of which one more comes up elsewhere.
  const FleetPlacement from = {{0, {0}}, {0, {0}}}, to = {{0, {1}}, {0, {2}}, {1, {0}}};
  const FleetTransition way = transition(fleet, from, to);
  EXPECT_EQ(way.full_nodes, std::vector<std::int64_t>{0});
  EXPECT_NEAR(way.least_scale[0], 1, 1e-12);  // the two elsewhere were up before
  EXPECT_NEAR(way.least_scale[1], 0, 1e-12);
  // With nowhere else, m is down while it changes.
  const FleetTransition swap = transition(fleet, {{1, {0}}}, {{0, {0}}, {0, {0}}});
  EXPECT_EQ(swap.full_nodes, std::vector<std::int64_t>{0});
  EXPECT_NEAR(swap.least_scale[1], 0, 1e-12);
  EXPECT_FALSE(swap.steps.front().starts);
}

TEST(Fleet, HasPricesOfWhatIsScarce) {
  FleetInstance fleet = small();
  fleet.models[0].demand = {12};  // 2 B, which serve more for their money, and 5 A
  const FleetAnswer answer = solve(fleet);
  EXPECT_NEAR(*answer.objective, 2 * 3 + 5, 1e-9);
  ASSERT_EQ(answer.model_prices.size(), 1U);
  EXPECT_NEAR(answer.model_prices[0].value, 1, 1e-6);  // an A
  ASSERT_EQ(answer.device_prices.size(), 2U);
  EXPECT_NEAR(answer.device_prices[0].value, 0, 1e-9);
  EXPECT_NEAR(answer.device_prices[1].value, 0.5, 1e-6);  // a B is as good as 3.5 A
  EXPECT_EQ(answer.device_prices[1].node_class, "1xB");
}

TEST(Fleet, StopsWhenItIsTold) {
  FleetInstance fleet = small();
  FleetOptions options;
  options.should_stop = [] { return true; };
  EXPECT_EQ(solve(fleet, options).status, FleetStatus::interrupted);
  options.should_stop = {};
  options.time_limit_s = 1e-9;
  EXPECT_EQ(solve(fleet, options).status, FleetStatus::time_limit);
}

TEST(Fleet, ThrowsWhatItsCallbacksThrow) {
  FleetOptions options;
  options.on_incumbent = [](const FleetIncumbent&, const FleetPlacement&) {
    throw Error(ErrorCode::script, "enough");
  };
  EXPECT_THROW(solve(small(), options), Error);
  options.on_incumbent = {};
  options.round = [](const std::vector<double>&) { return std::vector<double>{1}; };
  EXPECT_THROW(solve(small(), options), Error);
  options.round = [](const std::vector<double>& copies) {
    return std::vector<double>(copies.size(), std::nan(""));
  };
  EXPECT_THROW(solve(small(), options), Error);
}

TEST(Fleet, TakesColumnsAndRatesLater) {
  FleetMaster master(small());
  FleetOptions options;
  options.gap = 0;
  EXPECT_NEAR(*master.solve(options).objective, 4, 1e-9);
  master.set_rates(1, {4});
  EXPECT_NEAR(*master.solve(options).objective, 3, 1e-9);
  master.set_rates(1, {1});
  EXPECT_NEAR(*master.solve(options).objective, 4, 1e-9);
  EXPECT_EQ(master.add_column({0, {{"A", 2}}, {4}}), 2U);
  EXPECT_NEAR(*master.solve(options).objective, 2, 1e-9);
  EXPECT_THROW(master.add_column({3, {{"A", 2}}, {4}}), Error);
  EXPECT_THROW(master.set_rates(0, {1, 2}), Error);
  EXPECT_EQ(master.instance().columns.size(), 3U);
}

TEST(FleetCheck, NamesWhatIsWrong) {
  FleetInstance fleet = small();
  const auto first = [&](const FleetPlacement& placement) {
    const FleetCheck check = check_fleet(fleet, placement);
    return check.violations.empty() ? std::string() : check.violations.front();
  };
  const Replica a0{0, {0}}, a1{0, {1}};
  EXPECT_EQ(first({a0, a0, a1, a1}), "");
  EXPECT_THAT(first({a0, a0, a0, a1}), HasSubstr("node 0 (2xA) has 2 x A, its replicas take 3"));
  EXPECT_THAT(first({a0, a0, a1}), HasSubstr("0.75 of its demand"));
  EXPECT_THAT(first({{7, {0}}}), HasSubstr("no column 7"));
  EXPECT_THAT(first({{0, {6}}}), HasSubstr("nodes 0 to 5"));
  EXPECT_THAT(first({{0, {-1}}}), HasSubstr("nodes 0 to 5"));
  EXPECT_THAT(first({{0, {0, 1}}}), HasSubstr("2 nodes where column 0 takes 1"));
  EXPECT_THAT(first({{1, {0}}}), HasSubstr("has 0 x B"));
  fleet.max_usd_per_h = 3;
  EXPECT_THAT(first({a0, a0, a1, a1}), HasSubstr("4 USD/h, the budget is 3"));
  fleet.max_usd_per_h = {};
  fleet.reserve_nodes = 1;
  EXPECT_THAT(first({a0, a0, a1, a1}), HasSubstr("0.5 of its demand when a node is lost"));
  fleet.reserve_nodes = 0;
  fleet.columns.push_back({0, {{"A", 2}}, {9}, 2});
  EXPECT_THAT(first({{2, {0, 1}}, a1}), HasSubstr("shared with a replica over whole nodes"));
  EXPECT_THAT(first({{2, {3, 4}}}), HasSubstr("its nodes are of 2xA and 1xB"));
  fleet.columns[0].node_class = 1;
  EXPECT_THAT(first({a0}), HasSubstr("is of '2xA', not '1xB'"));
}

TEST(FleetFile, KeepsAllThatItIsGiven) {
  FleetInstance fleet = small();
  fleet.constraints = {{.model = 0, .max_gpus = 3, .device_type = "A"}};
  fleet.columns[1].node_class = 1;
  fleet.max_usd_per_h = 9;
  fleet.around = {{{0, {0}}, {1, {4}}}, {}};
  fleet.switch_usd = 0.25;
  fleet.hours = 2;
  const Json json = fleet_json(fleet);
  EXPECT_EQ(fleet_json(fleet_from_json(json, "f")), json);
  const SolvedFleet solved_fleet = solved(fleet, solve(fleet));
  const Json plan = solved_fleet_json(solved_fleet);
  const SolvedFleet read = solved_fleet_from_json(plan, "p");
  EXPECT_EQ(solved_fleet_json(read), plan);
  EXPECT_EQ(read.answer.placement, solved_fleet.answer.placement);
  EXPECT_THAT(fleet_text(read), HasSubstr("USD/h"));
}

struct BadField {
  const char *pointer, *value, *named;
};
class FleetFileBad : public ::testing::TestWithParam<BadField> {};

TEST_P(FleetFileBad, IsRefusedByName) {
  Json json = fleet_json(small());
  json[Json::json_pointer(GetParam().pointer)] = Json::parse(GetParam().value);
  try {
    fleet_from_json(json, "f.json");
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("f.json"));
    EXPECT_THAT(e.what(), HasSubstr(GetParam().named));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Fields, FleetFileBad,
    ::testing::Values(
        BadField{"/format", "\"tessera-fleet-2\"", "format"}, BadField{"/format", "1", "format"},
        BadField{"/objective", "\"least\"", "objective"}, BadField{"/billing", "3", "billing"},
        BadField{"/reserve_nodes", "-1", "reserve_nodes"},
        BadField{"/max_usd_per_h", "-1", "max_usd_per_h"}, BadField{"/colour", "1", "colour"},
        BadField{"/device_types/1/name", "\"A\"", "device_types[1]"},
        BadField{"/device_types/0/usd_per_h", "-1", "device_types[0]"},
        BadField{"/node_classes/0/count", "-1", "node_classes[0]: count"},
        BadField{"/node_classes/0/count", "10000001", "node_classes[0]: count"},
        BadField{"/node_classes/0/devices", "{\"C\": 1}", "node_classes[0].devices"},
        BadField{"/node_classes/0/devices", "[1]", "node_classes[0]: devices"},
        BadField{"/node_classes/1/name", "\"2xA\"", "node_classes[1]"},
        BadField{"/models",
                 "[{\"name\": \"m\", \"demand\": [1]}, {\"name\": \"m\", \"demand\": [1]}]",
                 "models[1].name"},
        BadField{"/models/0/demand", "[]", "models[0].demand"},
        BadField{"/models/0/demand", "[-1]", "models[0]: demand"},
        BadField{"/columns/0/model", "1", "columns[0].model"},
        BadField{"/columns/0/devices", "{}", "columns[0].devices"},
        BadField{"/columns/0/devices", "{\"A\": 1.5}", "columns[0]: devices.A"},
        BadField{"/columns/0/rate", "[1, 2]", "columns[0].rate"},
        BadField{"/columns/0/nodes", "0", "columns[0]: nodes"},
        BadField{"/columns/0/node_class", "2", "columns[0].node_class"},
        BadField{"/constraints", "[{\"model\": 2}]", "constraints[0].model"},
        BadField{"/constraints", "[{\"model\": 0, \"not_beside\": 0}]",
                 "constraints[0].not_beside"},
        BadField{"/constraints", "[{\"model\": 0, \"device_type\": \"A\"}]",
                 "constraints[0].device_type"},
        BadField{"/around", "[[{\"column\": 2, \"nodes\": [0]}]]", "around[0][0].column"},
        BadField{"/around", "[[{\"column\": 0, \"nodes\": [6]}]]", "around[0][0].nodes"},
        BadField{"/around", "[[{\"column\": 0, \"nodes\": []}]]", "around[0][0].nodes"},
        BadField{"/around", "[[], [], []]", "around"}, BadField{"/hours", "0", "hours"},
        BadField{"/switch_usd", "-1", "switch_usd"}));

}  // namespace
}  // namespace tessera::solver
