// Fleets with published optima, and with bounds that another solver proved.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>

#include "tessera/core/json.h"
#include "tessera/solver/fleet/check.h"
#include "tessera/solver/fleet/master.h"

namespace tessera::solver {
namespace {

const std::string kMelange = TESSERA_SOURCE_DIR "/../shared/measured/melange/";

std::string fleet_file(const std::string& name) {
  return TESSERA_SOURCE_DIR "/../shared/instances/fleet/" + name;
}

FleetAnswer proven(const FleetInstance& fleet) {
  FleetOptions options;
  options.gap = 0;
  FleetAnswer answer = FleetMaster(fleet).solve(options);
  if (answer.objective) {
    EXPECT_TRUE(check_fleet(fleet, answer.placement).violations.empty());
  }
  return answer;
}

class FleetInstances : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(fleet_file("tiny.json"))) {
      GTEST_SKIP() << "the instances are not at " << fleet_file("");
    }
  }
};

TEST_F(FleetInstances, TinyOnesAreAsByEnumeration) {
  int number = 0;
  for (const Json& item : read_json_file(fleet_file("tiny.json"))) {
    const FleetInstance fleet = fleet_from_json(item["instance"], "tiny.json");
    SCOPED_TRACE(fleet.name);
    const FleetAnswer answer = proven(fleet);
    const Json& want = item["want"];
    ++number;
    if (want["objective"].is_null()) {
      EXPECT_EQ(answer.status, FleetStatus::infeasible);
      continue;
    }
    const double best = want["objective"].get<double>();
    const double within = 1e-6 * std::max(std::abs(best), 1e-6);
    EXPECT_EQ(answer.status, FleetStatus::optimal);
    EXPECT_NEAR(answer.objective.value_or(-1), best, within);
    const FleetCheck check = check_fleet(fleet, placement_from_json(want["placement"], "want"));
    EXPECT_TRUE(check.violations.empty());
    EXPECT_NEAR(check.objective, best, within);
  }
  EXPECT_EQ(number, 80);
}

// Melange, Plot 5.
TEST_F(FleetInstances, StepCurveOfMelangeIsExact) {
  const Json plot = read_json_file(fleet_file("melange_plot5.json"));
  FleetInstance fleet = fleet_from_json(plot["instance"], "melange_plot5.json");
  EXPECT_EQ(plot["cases"].size(), 15U);
  for (const Json& point : plot["cases"]) {
    fleet.models[0].demand = {point["demand"].get<double>()};
    EXPECT_NEAR(*proven(fleet).objective, point["cost"].get<double>(), 1e-9);
  }
  // The saving over the better of the two alone, at 4.2 requests/s: 24 %.
  fleet.models[0].demand = {4.2};
  const double mixed = *proven(fleet).objective;
  const double alone = std::min(std::ceil(4.2 / 0.37 - 1e-9) * 1.01, std::ceil(4.2 / 2) * 3.67);
  EXPECT_NEAR(1 - mixed / alone, 0.24, 0.005);
}

// Shares free, so never dearer than slices of requests that stay together.
TEST_F(FleetInstances, TablesOfAibrixAreAsByTheLinearProgramme) {
  std::vector<std::vector<double>> rates;
  for (const char* gpu : {"a100", "a40"}) {
    const Json table = read_json_file(kMelange + "aibrix_llama2-7b_" + gpu + ".json");
    rates.emplace_back();
    for (const Json& row : table["tputs"]) {
      for (const Json& cell : row) rates.back().push_back(cell.get<double>());
    }
  }
  int cheaper = 0, number = 0;
  for (const Json& item : read_json_file(fleet_file("melange_aibrix.json"))) {
    FleetInstance fleet;
    fleet.models = {{"m", item["demand"].get<std::vector<double>>()}};
    for (const std::size_t gpu : {0, 1}) {
      const std::string name = gpu == 0 ? "A100" : "A40";
      fleet.device_types.push_back({name, item["usd"][gpu].get<double>()});
      fleet.node_classes.push_back({name, 1000, {{name, 1}}, 0});
      fleet.columns.push_back({0, {{name, 1}}, rates[gpu]});
    }
    SCOPED_TRACE(number);
    const double cost = proven(fleet).objective.value_or(-1);
    EXPECT_NEAR(cost, item["cost"].get<double>(), 1e-6);
    const double slices = item["melange"]["1"].get<double>();
    EXPECT_LE(cost, slices + 1e-6);
    cheaper += cost < slices - 1e-6 ? 1 : 0;
    ++number;
  }
  EXPECT_EQ(number, 8);
  EXPECT_GE(cheaper, 1);
  EXPECT_LE(cheaper, 4);
}

struct Large {
  const char* name;
  double gap;      ///< of the bound, to stop at
  double at_most;  ///< of the bound and of the best that is known, on a machine however busy
};
class LargeFleets : public FleetInstances, public ::testing::WithParamInterface<Large> {};

// How long it takes is for tests/bench/fleet_table.lua: 0.2 to 10 s, 30 s with a reserve.
TEST_P(LargeFleets, ComeCloseToTheBound) {
  const auto [name, gap, at_most] = GetParam();
  const FleetInstance fleet = read_fleet(fleet_file(std::string(name) + ".json"));
  const Json expected = read_json_file(fleet_file("large_expected.json"))[name];
  FleetOptions options;
  options.gap = gap;
  options.time_limit_s = 120;
  const FleetAnswer answer = FleetMaster(fleet).solve(options);
  ASSERT_TRUE(answer.objective);
  EXPECT_LE(*answer.gap, at_most);
  const FleetCheck check = check_fleet(fleet, answer.placement);
  EXPECT_TRUE(check.violations.empty());
  EXPECT_NEAR(check.objective, *answer.objective, 1e-9 * check.objective);
  const double best = expected["objective"].get<double>();
  // Neither bound may be better than what somebody has.
  const double sign = fleet.objective == FleetObjective::rate ? -1 : 1;
  EXPECT_LE(sign * *answer.bound, sign * best + 1e-6 * best);
  EXPECT_GE(sign * *answer.objective, sign * expected["bound"].get<double>() - 1e-6 * best);
  EXPECT_LE(sign * (*answer.objective - best) / best, at_most);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, LargeFleets,
    ::testing::Values(Large{"fleet64_cost_1", 0.01, 0.01}, Large{"fleet256_cost_1", 0.01, 0.01},
                      Large{"fleet1024_cost_1", 0.01, 0.01}, Large{"fleet64_rate_1", 0.01, 0.01},
                      Large{"fleet256_rate_1", 0.01, 0.01}, Large{"fleet1024_rate_1", 0.01, 0.01},
                      Large{"fleet64_reserve_1", 0.02, 0.15}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace tessera::solver
